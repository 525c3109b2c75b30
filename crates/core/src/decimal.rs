//! Numbers as people write them in JSON and in searches: exact, whatever their size. Floating point would
//! call different numbers equal, and arithmetic is not needed, so a number is its digits and a power of ten.

use std::cmp::Ordering;
use std::fmt;

/// Exponents up to here are counted. No text is long enough for its digits to add up to as much.
const COUNTED: i128 = 1 << 100;

/// Where an exponent beyond counting is taken to be: further away than any that is counted.
const FAR: i128 = 1 << 110;

/// Makes every magnitude positive.
const BIAS: i128 = 1 << 112;

/// A number as sign, digits without zeros at either end, and the power of ten of the last digit. Zero has
/// no digits. Equal numbers have equal parts, however they were written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    negative: bool,
    digits: String,
    exponent: i128,
}

impl Decimal {
    /// Reads a number such as `-12.50e3`. `None` for anything else, and for an exponent beyond counting.
    pub fn parse(text: &str) -> Option<Self> {
        Self::read(text, |exponent| exponent.parse().ok().filter(|n| (-COUNTED..=COUNTED).contains(n)))
    }

    /// The same for any number at all: one with an exponent beyond counting becomes another such number, which
    /// compares with every one that [`Self::parse`] reads as the given one does.
    pub fn parse_any(text: &str) -> Option<Self> {
        Self::read(text, |exponent| {
            let far = if exponent.starts_with('-') { -FAR } else { FAR };
            Some(exponent.parse().unwrap_or(far).clamp(-FAR, FAR))
        })
    }

    fn read(text: &str, count: impl Fn(&str) -> Option<i128>) -> Option<Self> {
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if ![whole, fraction, unsigned].into_iter().all(all_digits) {
            return None;
        }
        let digits = format!("{whole}{fraction}");
        if digits.bytes().all(|b| b == b'0') {
            return Some(Self::trimmed(false, &digits, 0));
        }
        Some(Self::trimmed(negative, &digits, count(exponent)? - fraction.len() as i128))
    }

    /// Takes the zeros away from either end of `digits`.
    fn trimmed(negative: bool, digits: &str, exponent: i128) -> Self {
        let significant = digits.trim_end_matches('0');
        let dropped = (digits.len() - significant.len()) as i128;
        let digits = significant.trim_start_matches('0').to_owned();
        let exponent = if digits.is_empty() { 0 } else { exponent + dropped };
        Self { negative, digits, exponent }
    }

    /// This number, `factor` times. `factor` is at most 2^60.
    #[must_use]
    pub(crate) fn times(&self, factor: u64) -> Self {
        let mut reversed = Vec::with_capacity(self.digits.len() + 20);
        let mut carry = 0;
        for digit in self.digits.bytes().rev() {
            carry += u64::from(digit - b'0') * factor;
            reversed.push(char::from(b'0' + (carry % 10) as u8));
            carry /= 10;
        }
        let digits = carry.to_string() + &reversed.into_iter().rev().collect::<String>();
        Self::trimmed(self.negative, &digits, self.exponent)
    }

    /// The largest whole number that is not above this one, and whether it is this one. What an `i64` cannot
    /// hold becomes the nearest that it can, and is not this one.
    pub fn floor(&self) -> (i64, bool) {
        if self.magnitude() > 19 {
            return (if self.negative { i64::MIN } else { i64::MAX }, false);
        }
        // At most 19 digits stand before the point, so that both the padding and the number are small.
        let before_point = usize::try_from(self.magnitude()).unwrap_or(0);
        let whole: String = self.digits.chars().chain(std::iter::repeat('0')).take(before_point).collect();
        let whole: i128 = whole.parse().unwrap_or(0);
        let exact = self.exponent >= 0;
        let floor = if self.negative { -whole - i128::from(!exact) } else { whole };
        match i64::try_from(floor) {
            Ok(floor) => (floor, exact),
            Err(_) => (if self.negative { i64::MIN } else { i64::MAX }, false),
        }
    }

    /// Whether this is a whole number.
    pub(crate) fn is_whole(&self) -> bool {
        self.exponent >= 0
    }

    /// The digits of a positive number, if they are at most 18, and the power of ten of the last one.
    pub(crate) fn positive_parts(&self) -> Option<(u64, i128)> {
        let few = !self.negative && (1..=18).contains(&self.digits.len());
        few.then(|| Some((self.digits.parse().ok()?, self.exponent))).flatten()
    }

    /// Whether this is a whole multiple of a number with such [parts](Self::positive_parts).
    pub(crate) fn is_multiple_of(&self, (divisor, exponent): (u64, i128)) -> bool {
        if self.digits.is_empty() {
            return true;
        }
        let divisor = u128::from(divisor);
        // The last digit is no zero, so the number is no multiple of a higher power of ten.
        let Ok(mut zeros) = u128::try_from(self.exponent - exponent) else { return false };
        let digit = |rest, digit: u8| (rest * 10 + u128::from(digit - b'0')) % divisor;
        let mut rest = self.digits.bytes().fold(0, digit);
        let mut factor = 10 % divisor;
        while zeros > 0 {
            if zeros & 1 == 1 {
                rest = rest * factor % divisor;
            }
            factor = factor * factor % divisor;
            zeros >>= 1;
        }
        rest == 0
    }

    /// How many digits stand before the point; for a number below one, minus how many zeros follow the point.
    fn magnitude(&self) -> i128 {
        self.exponent + self.digits.len() as i128
    }

    /// A text that sorts by code point as the number does, for stores that cannot compare numbers of any size:
    /// sign, how far the first digit is from the point, digits. Negative ones are turned upside down.
    pub fn sort_key(&self) -> String {
        if self.digits.is_empty() {
            return "1".to_owned();
        }
        let key = format!("{:035}{}", self.magnitude() + BIAS, self.digits);
        if !self.negative {
            return format!("2{key}");
        }
        let mirrored: String = key.bytes().map(|digit| char::from(b'0' + b'9' - digit)).collect();
        format!("0{mirrored}~")
    }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Self {
        Self::trimmed(number < 0, &number.unsigned_abs().to_string(), 0)
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        // Without zeros at the end, digits from the same place on compare as text does.
        let sizes = |a: &Self, b: &Self| {
            let zeros = b.digits.is_empty().cmp(&a.digits.is_empty());
            zeros.then(a.magnitude().cmp(&b.magnitude())).then_with(|| a.digits.cmp(&b.digits))
        };
        match (self.negative, other.negative) {
            (false, false) => sizes(self, other),
            (true, true) => sizes(other, self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Decimal {
    /// `-15e-1`: digits, and an exponent where there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        let digits = if self.digits.is_empty() { "0" } else { &self.digits };
        match self.exponent {
            0 => write!(f, "{sign}{digits}"),
            exponent => write!(f, "{sign}{digits}e{exponent}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn numbers_have_an_order_whatever_their_size() {
        let ascending = [
            "-1e400",
            "-12.5",
            "-12",
            "-1.5",
            "-1e-9",
            "0",
            "1e-400",
            "0.1",
            "0.10000000000000001",
            "1",
            "9.99",
            "10",
            "18446744073709551615",
            "18446744073709551616",
            "1e400",
            "1.5e400",
            "1e9223372036854775808",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(number(a).cmp(&number(b)), i.cmp(&j), "{a} and {b}");
                assert_eq!(number(a).sort_key().cmp(&number(b).sort_key()), i.cmp(&j), "{a} and {b}");
            }
        }
    }

    #[test]
    fn malformed_numbers_are_not_parsed() {
        for text in
            ["", "-", ".5", "5.", "1e", "1e+", "+1", "--1", "1.2.3", "0x1", "1e1.5", "e5", "NaN", "1 ", "٣"]
        {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert_eq!(number("007"), number("7.0"));
    }

    #[test]
    fn an_exponent_beyond_counting_is_further_away_than_any_that_is_counted() {
        let (huge, counted) = ("9".repeat(60), COUNTED);
        for (beyond, expected) in
            [("1e", Ordering::Greater), ("1e-", Ordering::Less), ("-1e", Ordering::Less)]
        {
            let text = format!("{beyond}{huge}");
            assert_eq!(Decimal::parse(&text), None);
            let beyond = Decimal::parse_any(&text).unwrap();
            let limit = if text.contains("e-") { format!("1e-{counted}") } else { format!("9e{counted}") };
            assert_eq!(beyond.cmp(&number(&limit)), expected, "{text}");
        }
        assert_eq!(Decimal::parse(&format!("0e{huge}")), Some(Decimal::from(0)));
    }

    #[test]
    fn numbers_are_multiplied_exactly() {
        assert_eq!(number("1.5").times(1 << 10), number("1536"));
        assert_eq!(number("-4").times(1 << 30), number("-4294967296"));
        assert_eq!(number("0").times(1 << 50), number("0"));
        assert_eq!(
            number("99999999999999999999").times(1 << 50),
            number("112589990684262399998874100093157376")
        );
    }

    #[test]
    fn a_multiple_is_told_whatever_the_sizes() {
        let is_multiple = |a: &str, b: &str| number(a).is_multiple_of(number(b).positive_parts().unwrap());
        for (a, b) in [
            ("0", "3"),
            ("-9", "3"),
            ("0.3", "0.1"),
            ("1e400", "1"),
            ("4.5", "1.5"),
            ("0.0075", "0.0001"),
            ("7e1000000000000", "0.7e-9"),
            ("300000000000000000000000000003", "3"),
            ("12e2", "4e2"),
        ] {
            assert!(is_multiple(a, b), "{a} and {b}");
        }
        for (a, b) in
            [("10", "3"), ("0.00751", "0.0001"), ("35", "1.5"), ("1e-9", "1"), ("1e400", "3"), ("1", "10")]
        {
            assert!(!is_multiple(a, b), "{a} and {b}");
        }
        assert_eq!(number("0").positive_parts(), None);
        assert_eq!(number("-1").positive_parts(), None);
        assert_eq!(number("1234567890123456789").positive_parts(), None);
    }

    #[test]
    fn the_floor_is_a_whole_number_and_says_whether_it_is_the_number() {
        for (text, floor, exact) in [
            ("0", 0, true),
            ("7", 7, true),
            ("1.5", 1, false),
            ("-1.5", -2, false),
            ("0.001", 0, false),
            ("-0.001", -1, false),
            ("1e-400", 0, false),
            ("12e2", 1200, true),
            ("9223372036854775807", i64::MAX, true),
            ("9223372036854775808", i64::MAX, false),
            ("-9223372036854775808", i64::MIN, true),
            ("-9223372036854775808.5", i64::MIN, false),
            ("-1e400", i64::MIN, false),
            ("1e400", i64::MAX, false),
        ] {
            assert_eq!(number(text).floor(), (floor, exact), "{text}");
        }
    }

    #[test]
    fn a_printed_number_parses_to_the_same_number() {
        for (text, printed) in [("-1.50", "-15e-1"), ("0.00", "0"), ("1200", "12e2"), ("7", "7")] {
            assert_eq!(number(text).to_string(), printed);
            assert_eq!(number(printed), number(text));
        }
    }
}
