//! Texts that a row keeps without being searched by them, several in one value, as short as they can be had for a few
//! microseconds. What adapters report and what changes tell are short texts that look alike, so most of each is in a
//! dictionary of the words that they have in common. Nothing that a statement looks at may be packed.

use std::sync::{LazyLock, Mutex, PoisonError};

use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

use crate::failure::{Failure, FailureKind};

/// What the texts have in common: their own forms, and the words of the conditions that we write. What is packed can
/// be read with no other, so it never changes; another would get a number of its own.
const WORDS: &[u8] = include_bytes!("packed/words.txt");

/// The first byte of a value: by which dictionary it is to be read.
const BY_WORDS: u8 = 1;

/// The next higher ones take twice the time for a tenth of the bytes.
const LEVEL: i32 = -3;

/// What claims to be longer is damaged.
const MOST_BYTES: usize = 1 << 30;

static TO_WRITE: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(WORDS, LEVEL));
static TO_READ: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(WORDS));

/// What nobody uses at the moment: to make one takes longer than to pack with it.
static WRITERS: Mutex<Vec<Compressor<'static>>> = Mutex::new(Vec::new());
static READERS: Mutex<Vec<Decompressor<'static>>> = Mutex::new(Vec::new());

/// Packs texts, of which none may hold a zero byte; no JSON does.
pub(crate) fn pack<const N: usize>(texts: [Option<&str>; N]) -> Result<Vec<u8>, Failure> {
    let joined = texts.map(Option::unwrap_or_default).join("\0");
    let idle = WRITERS.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut writer =
        idle.map_or_else(|| Compressor::with_prepared_dictionary(&TO_WRITE), Ok).map_err(defect)?;
    let mut packed = vec![0; 1 + zstd::zstd_safe::compress_bound(joined.len())];
    packed[0] = BY_WORDS;
    let length = writer.compress_to_buffer(joined.as_bytes(), &mut packed[1..]).map_err(defect)?;
    packed.truncate(1 + length);
    packed.shrink_to_fit();
    WRITERS.lock().unwrap_or_else(PoisonError::into_inner).push(writer);
    Ok(packed)
}

/// The texts of a row: packed together, or in columns of their own, where an empty one is none.
pub(crate) fn texts<const N: usize>(
    packed: Option<&[u8]>,
    plain: [Option<&str>; N],
) -> Result<[Option<String>; N], Failure> {
    let mut texts = plain.map(|text| text.filter(|text| !text.is_empty()).map(str::to_owned));
    if let Some(packed) = packed {
        let joined = unpack(packed)?;
        for (text, found) in texts.iter_mut().zip(joined.split('\0')).filter(|(_, found)| !found.is_empty()) {
            *text = Some(found.to_owned());
        }
    }
    Ok(texts)
}

fn unpack(packed: &[u8]) -> Result<String, Failure> {
    let [BY_WORDS, frame @ ..] = packed else {
        return Err(defect("a value that was packed in another way"));
    };
    let length = Decompressor::upper_bound(frame).filter(|length| (1..=MOST_BYTES).contains(length));
    let length = length.ok_or_else(|| defect("a value without its length"))?;
    let idle = READERS.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut reader =
        idle.map_or_else(|| Decompressor::with_prepared_dictionary(&TO_READ), Ok).map_err(defect)?;
    let text = reader.decompress(frame, length).map_err(defect)?;
    READERS.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
    String::from_utf8(text).map_err(defect)
}

fn defect(cause: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Defect, cause)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn the_words_never_change() {
        let fingerprint: String = Sha256::digest(WORDS).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(fingerprint, "16c8690762aa6153728b1eb8d71964ab5360c4d16f63f5421e2778b5be9f40a2");
    }

    #[test]
    fn a_first_report_takes_less_than_half_of_its_text() {
        let conditions = r#"[{"type":"Available","status":"True","reason":"JobSucceeded","message":"Generation 1 is applied","last_transition_time":"2026-01-20T06:54:11.558619Z"},{"type":"Applied","status":"True","reason":"ManifestsApplied","message":"All manifests were applied","last_transition_time":"2026-01-20T06:54:11.558619Z"},{"type":"Health","status":"True","reason":"Healthy","message":"No errors","last_transition_time":"2026-01-20T06:54:11.558619Z"}]"#;
        let packed = pack([Some(conditions), Some("{}"), None]).unwrap();
        assert!(packed.len() * 2 < conditions.len(), "{} of {}", packed.len(), conditions.len());
    }

    #[test]
    fn what_was_packed_in_a_way_that_is_not_known_is_refused() {
        for packed in [&b""[..], b"\0", b"\x01", b"\x01nothing of ours", b"\x02{}"] {
            assert_eq!(texts(Some(packed), [None]).unwrap_err().kind, FailureKind::Defect, "{packed:?}");
        }
    }

    #[test]
    fn rows_from_before_there_was_packing_keep_their_texts_in_columns() {
        let plain = [Some("[]"), Some(""), None];
        assert_eq!(texts(None, plain).unwrap(), [Some("[]".to_owned()), None, None]);
        let packed = pack([None, None, Some("{}")]).unwrap();
        assert_eq!(
            texts(Some(&packed), plain).unwrap(),
            [Some("[]".to_owned()), None, Some("{}".to_owned())]
        );
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(texts_of in prop::collection::vec(prop::option::of("[^\0]{1,300}"), 3)) {
            let given = [texts_of[0].as_deref(), texts_of[1].as_deref(), texts_of[2].as_deref()];
            let packed = pack(given).unwrap();
            let found = texts(Some(&packed), [None; 3]).unwrap();
            prop_assert_eq!(found.each_ref().map(Option::as_deref), given);
        }
    }
}
