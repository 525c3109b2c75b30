//! Chance that is the same again for the same seed and the same question, in whatever order questions are asked: many
//! resources are worked on at once, and their interleaving must not decide who fails.

/// A number from 0 up to but not including 1.
pub fn roll(seed: u64, question: &[&str]) -> f64 {
    // FNV-1a, with a byte that no text holds between the words.
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ mixed(seed);
    for word in question {
        for byte in word.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    // As many bits as the fraction of a double holds.
    (mixed(hash) >> 11) as f64 / (1_u64 << 53) as f64
}

/// The finishing steps of splitmix64, which spread small differences over all bits.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_question_has_the_same_answer_and_others_are_spread_evenly() {
        assert_eq!(roll(7, &["a", "b"]).to_bits(), roll(7, &["a", "b"]).to_bits());
        assert_ne!(roll(7, &["a", "b"]).to_bits(), roll(7, &["ab", ""]).to_bits());
        assert_ne!(roll(7, &["a"]).to_bits(), roll(8, &["a"]).to_bits());
        let low = (0..10_000).filter(|n| roll(7, &["x", &n.to_string()]) < 0.05).count();
        assert!((400..600).contains(&low), "{low}");
    }
}
