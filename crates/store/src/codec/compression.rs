//! Compression of the texts of a row that no statement looks at, several in one value. A dictionary of our own words
//! makes short texts short, which zstd alone does not.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::sync::LazyLock;

use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

use crate::failure::{Failure, FailureKind};

/// Written values can be read with no other dictionary, so this one never changes: another one needs another [`FORMAT`].
const DICTIONARY: &[u8] = include_bytes!("dictionary.txt");

/// The first byte of a value.
const FORMAT: u8 = 1;

/// Higher levels take twice the time for a tenth of the bytes.
const LEVEL: i32 = -3;

/// A longer value is damaged.
const MAX_BYTES: usize = 1 << 30;

static ENCODER: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));
static DECODER: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(DICTIONARY));

thread_local! {
    static COMPRESSOR: RefCell<io::Result<Compressor<'static>>> =
        RefCell::new(Compressor::with_prepared_dictionary(&ENCODER));
    static DECOMPRESSOR: RefCell<io::Result<Decompressor<'static>>> =
        RefCell::new(Decompressor::with_prepared_dictionary(&DECODER));
}

/// Compresses texts into one value. None may hold a zero byte; no JSON does. Absent and empty texts are the same.
pub(crate) fn compress<const N: usize>(texts: [Option<&str>; N]) -> Result<Vec<u8>, Failure> {
    let joined = texts.map(Option::unwrap_or_default).join("\0");
    let frame = COMPRESSOR.with_borrow_mut(|compressor| {
        compressor.as_mut().map_err(defect)?.compress(joined.as_bytes()).map_err(defect)
    })?;
    let mut value = Vec::with_capacity(1 + frame.len());
    value.push(FORMAT);
    value.extend_from_slice(&frame);
    Ok(value)
}

/// The texts of a value.
pub(crate) fn decompress<const N: usize>(value: &[u8]) -> Result<[Option<String>; N], Failure> {
    let [FORMAT, frame @ ..] = value else { return Err(defect("a compressed value has an unknown format")) };
    let length = Decompressor::upper_bound(frame)
        .filter(|length| (1..=MAX_BYTES).contains(length))
        .ok_or_else(|| defect("a compressed value lacks its length"))?;
    let joined = DECOMPRESSOR.with_borrow_mut(|decompressor| {
        decompressor.as_mut().map_err(defect)?.decompress(frame, length).map_err(defect)
    })?;
    let joined = String::from_utf8(joined).map_err(defect)?;
    let mut texts = joined.split('\0').map(|text| (!text.is_empty()).then(|| text.to_owned()));
    Ok(std::array::from_fn(|_| texts.next().flatten()))
}

fn defect(cause: impl fmt::Display) -> Failure {
    Failure::new(FailureKind::Defect, cause.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn the_dictionary_never_changes() {
        let fingerprint: String =
            Sha256::digest(DICTIONARY).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(fingerprint, "de32bf7f821deddb088a8e3c83047477cbdba35969d3a3f6ca2f75a4ca17f3a5");
    }

    #[test]
    fn a_first_report_takes_less_than_half_of_its_text() {
        let conditions = r#"[{"type":"Available","status":"True","reason":"JobSucceeded","message":"Generation 1 is applied","last_transition_time":"2026-01-20T06:54:11.558619Z"},{"type":"Applied","status":"True","reason":"ManifestsApplied","message":"All manifests were applied","last_transition_time":"2026-01-20T06:54:11.558619Z"},{"type":"Health","status":"True","reason":"Healthy","message":"No errors","last_transition_time":"2026-01-20T06:54:11.558619Z"}]"#;
        let value = compress([Some(conditions), Some("{}"), None]).unwrap();
        assert!(value.len() * 2 < conditions.len(), "{} of {}", value.len(), conditions.len());
    }

    #[test]
    fn a_damaged_value_is_a_defect() {
        for value in [&b""[..], b"\0", b"\x01", b"\x01nothing of ours", b"\x02{}"] {
            assert_eq!(decompress::<1>(value).unwrap_err().kind, FailureKind::Defect, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn decompressed_texts_are_the_compressed_ones(texts in prop::collection::vec(prop::option::of("[^\0]{1,300}"), 3)) {
            let given = [texts[0].as_deref(), texts[1].as_deref(), texts[2].as_deref()];
            let found = decompress(&compress(given).unwrap()).unwrap();
            prop_assert_eq!(found.each_ref().map(Option::as_deref), given);
        }
    }
}
