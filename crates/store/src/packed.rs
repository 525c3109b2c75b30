//! Texts that a row keeps without being searched by them, several in one value, as short as they can be had for a few
//! microseconds. What adapters report and what changes tell are short texts that look alike, so most of each is in a
//! dictionary of the words that they have in common. Nothing that a statement looks at may be packed.
//!
//! The words that all installations share stand in the binary. What adapters say differs from one to the next, so an
//! installation learns more words from its own rows ([`learn`]) and keeps them in a table. The first byte of a value is
//! the number of its dictionary, and a dictionary never changes, so whatever was packed once can be read for ever. A server
//! that took over without the last dictionary may give its number again, so behind the number of a learned one stand two
//! bytes of its fingerprint.

mod learn;
mod shared;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use sha2::{Digest as _, Sha256};
use zstd::bulk::Decompressor;
use zstd::zstd_safe::{self, CCtx, CDict, DCtx, DDict};

use crate::failure::{Failure, FailureKind};

pub(crate) use learn::{PackedRow, SAMPLE, better, sampled_versions};

/// What the texts have in common: their own forms, and the words of the conditions that we write. What is packed can
/// be read with no other, so it never changes.
const WORDS: &[u8] = include_bytes!("packed/words.txt");

/// The number of the dictionary in the binary. Those that are learned have the next ones.
const BY_WORDS: u8 = 1;

/// The next higher ones take twice the time for a tenth of the bytes. For learned words a thorough search (level 4) would
/// leave two thirds of the bytes, but one who reports something new would wait for it: a tenth fewer a second.
const LEVEL: i32 = -3;

/// What claims to be longer is damaged.
const MOST_BYTES: usize = 1 << 30;

/// What nobody uses at the moment: to make one takes longer than to pack with it.
static WRITERS: Mutex<Vec<CCtx<'static>>> = Mutex::new(Vec::new());
static READERS: Mutex<Vec<DCtx<'static>>> = Mutex::new(Vec::new());

/// The dictionaries of one database, as far as they are known here. Another replica may have made more since: whoever
/// meets [a value of one](FailureKind::UnknownDictionary) reads the table and tries again.
#[derive(Debug)]
pub(crate) struct Dictionaries {
    known: RwLock<BTreeMap<u8, Arc<Dictionary>>>,
    /// How many values were packed since the last look for better words.
    packed: AtomicUsize,
}

/// Words, prepared for packing and unpacking.
pub(crate) struct Dictionary {
    pub(crate) number: u8,
    /// What a value begins with.
    head: Vec<u8>,
    words: Vec<u8>,
    to_write: CDict<'static>,
    to_read: DDict<'static>,
}

impl Dictionaries {
    /// With the words of the binary alone.
    pub(crate) fn new() -> Result<Self, Failure> {
        let first = Arc::new(Dictionary::new(BY_WORDS, WORDS.to_vec())?);
        Ok(Self { known: RwLock::new(BTreeMap::from([(BY_WORDS, first)])), packed: AtomicUsize::new(0) })
    }

    /// Packs texts by the newest dictionary. None may hold a zero byte; no JSON does.
    pub(crate) fn pack<const N: usize>(&self, texts: [Option<&str>; N]) -> Result<Vec<u8>, Failure> {
        let joined = texts.map(Option::unwrap_or_default).join("\0");
        self.packed.fetch_add(1, Ordering::Relaxed);
        self.newest()?.pack(&joined)
    }

    /// The texts of a row: packed together, or in columns of their own, where an empty one is none.
    pub(crate) fn texts<const N: usize>(
        &self,
        packed: Option<&[u8]>,
        plain: [Option<&str>; N],
    ) -> Result<[Option<String>; N], Failure> {
        let mut texts = plain.map(|text| text.filter(|text| !text.is_empty()).map(str::to_owned));
        if let Some(packed) = packed {
            let joined = self.unpack(packed)?;
            for (text, found) in
                texts.iter_mut().zip(joined.split('\0')).filter(|(_, found)| !found.is_empty())
            {
                *text = Some(found.to_owned());
            }
        }
        Ok(texts)
    }

    fn unpack(&self, packed: &[u8]) -> Result<String, Failure> {
        let [number @ BY_WORDS..=u8::MAX, ..] = packed else {
            return Err(defect("a value that was packed in another way"));
        };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(number).cloned();
        let unknown = || {
            let cause = format!("a value was packed by dictionary {number}, which is not there");
            Failure::new(FailureKind::UnknownDictionary, cause)
        };
        let known = known.ok_or_else(unknown)?;
        known.unpack(packed.strip_prefix(&*known.head).ok_or_else(unknown)?)
    }

    /// The one to pack with. It is in the table already, so everyone can read what it packs.
    pub(crate) fn newest(&self) -> Result<Arc<Dictionary>, Failure> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.last_key_value().map(|(_, newest)| newest.clone()).ok_or_else(|| defect("no dictionary"))
    }

    /// Takes in what the table holds.
    pub(crate) fn add(&self, kept: Vec<(u8, Vec<u8>)>) -> Result<(), Failure> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (number, words) in kept {
            if number > BY_WORDS && known.get(&number).is_none_or(|known| known.words != words) {
                known.insert(number, Arc::new(Dictionary::new(number, words)?));
            }
        }
        Ok(())
    }

    /// The same behind a new connection, where another server may be that lacks the last of them: they must not be used
    /// any more.
    pub(crate) fn replace(&self, kept: Vec<(u8, Vec<u8>)>) -> Result<(), Failure> {
        let is_kept = |number: u8| number == BY_WORDS || kept.iter().any(|(kept, _)| *kept == number);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|number, _| is_kept(*number));
        drop(known);
        self.add(kept)
    }

    /// How many values were packed since the last look.
    pub(crate) fn packed_since_look(&self) -> usize {
        self.packed.load(Ordering::Relaxed)
    }

    /// Counts anew.
    pub(crate) fn looked(&self) {
        self.packed.store(0, Ordering::Relaxed);
    }
}

impl fmt::Debug for Dictionary {
    /// Without the words, which are of all tenants.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({})", self.number)
    }
}

impl Dictionary {
    fn new(number: u8, words: Vec<u8>) -> Result<Self, Failure> {
        let unfit = || defect(format!("dictionary {number} cannot be used"));
        let to_write = CDict::try_create(&words, LEVEL).ok_or_else(unfit)?;
        let to_read = DDict::try_create(&words).ok_or_else(unfit)?;
        let mut head = vec![number];
        if number != BY_WORDS {
            head.extend_from_slice(&Sha256::digest(&words)[..2]);
        }
        Ok(Self { number, head, words, to_write, to_read })
    }

    fn pack(&self, joined: &str) -> Result<Vec<u8>, Failure> {
        let idle = WRITERS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut writer = idle.or_else(CCtx::try_create).ok_or_else(|| defect("no memory to pack in"))?;
        let mut packed = self.head.clone();
        packed.resize(self.head.len() + zstd_safe::compress_bound(joined.len()), 0);
        let room = &mut packed[self.head.len()..];
        let packing = writer.compress_using_cdict(room, joined.as_bytes(), &self.to_write);
        let length = packing.map_err(|code| defect(zstd_safe::get_error_name(code)))?;
        packed.truncate(self.head.len() + length);
        packed.shrink_to_fit();
        WRITERS.lock().unwrap_or_else(PoisonError::into_inner).push(writer);
        Ok(packed)
    }

    fn unpack(&self, frame: &[u8]) -> Result<String, Failure> {
        let length = Decompressor::upper_bound(frame).filter(|length| (1..=MOST_BYTES).contains(length));
        let length = length.ok_or_else(|| defect("a value without its length"))?;
        let idle = READERS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut reader = idle.or_else(DCtx::try_create).ok_or_else(|| defect("no memory to unpack in"))?;
        let mut text = Vec::with_capacity(length);
        let unpacking = reader.decompress_using_ddict(&mut text, frame, &self.to_read);
        unpacking.map_err(|code| defect(zstd_safe::get_error_name(code)))?;
        READERS.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
        String::from_utf8(text).map_err(defect)
    }
}

fn defect(cause: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Defect, cause)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_words_never_change() {
        let fingerprint: String = Sha256::digest(WORDS).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(fingerprint, "16c8690762aa6153728b1eb8d71964ab5360c4d16f63f5421e2778b5be9f40a2");
    }

    #[test]
    fn a_first_report_takes_less_than_half_of_its_text() {
        let conditions = r#"[{"type":"Available","status":"True","reason":"JobSucceeded","message":"Generation 1 is applied","last_transition_time":"2026-01-20T06:54:11.558619Z"},{"type":"Applied","status":"True","reason":"ManifestsApplied","message":"All manifests were applied","last_transition_time":"2026-01-20T06:54:11.558619Z"},{"type":"Health","status":"True","reason":"Healthy","message":"No errors","last_transition_time":"2026-01-20T06:54:11.558619Z"}]"#;
        let packed = Dictionaries::new().unwrap().pack([Some(conditions), Some("{}"), None]).unwrap();
        assert!(packed.len() * 2 < conditions.len(), "{} of {}", packed.len(), conditions.len());
    }

    #[test]
    fn what_was_packed_in_a_way_that_is_not_known_is_refused() {
        let known = Dictionaries::new().unwrap();
        let kind = |packed: &[u8]| known.texts(Some(packed), [None]).unwrap_err();
        for packed in [&b""[..], b"\0", b"\x01", b"\x01nothing of ours"] {
            assert_eq!(kind(packed).kind, FailureKind::Defect, "{packed:?}");
        }
        let unknown = kind(b"\x02{}");
        assert_eq!(unknown.kind, FailureKind::UnknownDictionary);
        // For the caller that is a defect like the others.
        assert_eq!(unknown.clone().into_error().kind, defect("").into_error().kind);
        assert_eq!(unknown.error_type(), defect("").error_type());
    }

    #[test]
    fn rows_from_before_there_was_packing_keep_their_texts_in_columns() {
        let known = Dictionaries::new().unwrap();
        let plain = [Some("[]"), Some(""), None];
        assert_eq!(known.texts(None, plain).unwrap(), [Some("[]".to_owned()), None, None]);
        let packed = known.pack([None, None, Some("{}")]).unwrap();
        assert_eq!(
            known.texts(Some(&packed), plain).unwrap(),
            [Some("[]".to_owned()), None, Some("{}".to_owned())]
        );
    }

    #[test]
    fn what_another_server_does_not_have_is_not_used_any_more() {
        let known = Dictionaries::new().unwrap();
        let text = r#"{"says":"the same as the second dictionary, word for word"}"#;
        let words = text.as_bytes().to_vec();
        known.add(vec![(2, words.clone()), (3, b"others that are lost".to_vec())]).unwrap();
        let lost = known.pack([Some(text)]).unwrap();
        known.replace(vec![(2, words)]).unwrap();
        assert_eq!(known.texts(Some(&lost), [None]).unwrap_err().kind, FailureKind::UnknownDictionary);
        let packed = known.pack([Some(text)]).unwrap();
        assert_eq!((packed[0], packed.len() < 20), (2, true), "{packed:?}");
        // The number is given again, to other words.
        known.add(vec![(3, b"others".to_vec())]).unwrap();
        assert_eq!(known.pack([Some(text)]).unwrap()[0], 3);
        // What was packed by the first of that number is not read by the second.
        assert_eq!(known.texts(Some(&lost), [None]).unwrap_err().kind, FailureKind::UnknownDictionary);
        assert_eq!(known.texts(Some(&packed), [None]).unwrap(), [Some(text.to_owned())]);
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back_whatever_was_learned_meanwhile(
            texts_of in prop::collection::vec(prop::option::of("[^\0]{1,300}"), 3),
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2000), 0..4),
        ) {
            let known = Dictionaries::new().unwrap();
            let given = [texts_of[0].as_deref(), texts_of[1].as_deref(), texts_of[2].as_deref()];
            let mut packed = vec![known.pack(given).unwrap()];
            for (number, words) in (2..).zip(words) {
                known.add(vec![(number, words)]).unwrap();
                packed.push(known.pack(given).unwrap());
            }
            for (number, packed) in (1..).zip(packed) {
                prop_assert_eq!(packed[0], number);
                let found = known.texts(Some(&packed), [None; 3]).unwrap();
                prop_assert_eq!(found.each_ref().map(Option::as_deref), given);
            }
        }
    }
}
