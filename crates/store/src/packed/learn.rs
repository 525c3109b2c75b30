//! How an installation learns words from its rows: from those of one half of its resources, to be tried on those of the
//! other half. Another dictionary is worth a number only if it makes values clearly shorter.

use hyperfleet_core::{IdMap, ResourceId, Version};

use super::shared::{Row, words};
use super::{Dictionaries, Dictionary};
use crate::failure::Failure;

/// The most changes to learn from, and the most reports.
pub(crate) const SAMPLE: usize = 384;

/// With fewer rows there is nothing to be told.
const FEWEST: usize = 64;

/// What is longer than this, in bytes, is mostly what its resource alone says. It also bounds the memory that learning
/// takes, some ten times that of the texts.
const LONGEST: usize = 8 << 10;

/// A row that is packed.
pub(crate) struct PackedRow {
    pub(crate) resource: ResourceId,
    pub(crate) packed: Vec<u8>,
}

/// The changes to learn from: the newest, and older ones the farther apart the older they are. They are never equally far
/// apart for long, so that no rhythm of a fleet can hide one kind of change from all of them.
pub(crate) fn sampled_versions(forgotten: Version, newest: Version) -> Vec<i64> {
    let backwards = (0..SAMPLE as i64).map(|step| newest.0 - step - step * step / 16);
    backwards.take_while(|version| *version > forgotten.0).collect()
}

/// The words of these rows, if values take at most two thirds by them of what they take by the dictionary in use.
pub(crate) fn better(
    known: &Dictionaries,
    in_use: &Dictionary,
    rows: &[PackedRow],
) -> Result<Option<Vec<u8>>, Failure> {
    let mut resources: IdMap<usize> = IdMap::default();
    let (mut learned, mut tried) = (Vec::new(), Vec::new());
    for row in rows {
        let next = resources.len();
        let resource = *resources.entry(row.resource).or_insert(next);
        // One that cannot be read is no reason to learn nothing from the others.
        if let Ok(text) = known.unpack(&row.packed)
            && text.len() <= LONGEST
        {
            if resource.is_multiple_of(2) { &mut learned } else { &mut tried }.push((resource, text));
        }
    }
    if learned.len() + tried.len() < FEWEST {
        return Ok(None);
    }
    let rows: Vec<Row<'_>> =
        learned.iter().map(|(resource, text)| Row { resource: *resource, text }).collect();
    let candidate = Dictionary::new(in_use.number.saturating_add(1), words(&rows))?;
    let (mut by_candidate, mut by_in_use) = (0, 0);
    for (_, text) in &tried {
        by_candidate += candidate.pack(text)?.len();
        by_in_use += in_use.pack(text)?.len();
    }
    Ok((by_candidate * 3 <= by_in_use * 2 && by_in_use > 0).then_some(candidate.words))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of an installation with words of its own.
    fn rows(known: &Dictionaries, words: &str) -> Vec<PackedRow> {
        let row = |n: usize| {
            let id = ResourceId::generate();
            let text = format!(
                r#"[{{"type":"Available","reason":"{words}","message":"{words}, says the adapter","time":{n}}}]"#
            );
            let data =
                words.split_inclusive(char::is_uppercase).collect::<Vec<_>>().join(r#"":"is fine","and "#);
            let data = format!(r#"{{"job":"{id}","{data}":true}}"#);
            PackedRow { resource: id, packed: known.pack([Some(&text), Some(&data), None]).unwrap() }
        };
        (0..100).map(row).collect()
    }

    #[test]
    fn words_are_learned_once_and_again_when_others_are_said() {
        let known = Dictionaries::new().unwrap();
        let first = rows(&known, "ManifestsWereAppliedToTheManagementCluster");
        let words = better(&known, &known.newest().unwrap(), &first).unwrap().expect("worth it");
        known.add(vec![(2, words)]).unwrap();
        assert!(better(&known, &known.newest().unwrap(), &first).unwrap().is_none());

        let second = rows(&known, "EveryRecordOfTheZoneIsThereAndSigned");
        let words = better(&known, &known.newest().unwrap(), &second).unwrap().expect("worth it");
        known.add(vec![(3, words)]).unwrap();
        assert!(better(&known, &known.newest().unwrap(), &second).unwrap().is_none());
        assert_eq!(known.newest().unwrap().number, 3);
    }

    #[test]
    fn a_few_rows_teach_nothing() {
        let known = Dictionaries::new().unwrap();
        let rows = rows(&known, "ManifestsWereAppliedToTheManagementCluster");
        assert!(better(&known, &known.newest().unwrap(), &rows[..FEWEST - 1]).unwrap().is_none());
        assert!(better(&known, &known.newest().unwrap(), &[]).unwrap().is_none());
    }

    #[test]
    fn changes_are_sampled_down_to_what_is_forgotten() {
        assert_eq!(sampled_versions(Version(0), Version(0)), [] as [i64; 0]);
        assert_eq!(sampled_versions(Version(3), Version(20)), [20, 19, 18, 17, 15, 14, 12, 10, 8, 6, 4]);
        assert_eq!(sampled_versions(Version(0), Version(1 << 40)).len(), SAMPLE);
    }
}
