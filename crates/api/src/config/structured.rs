//! Settings that are lists of mappings: each entry is read on its own, and a faulty member is reported and left out, so
//! that one start reports the faults of every entry.

use hyperfleet_service::logging::without_url_secrets;
use hyperfleet_service::settings::Settings;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use serde_path_to_error::Segment;

/// Longest part of a given value that is repeated in a fault.
const SHOWN_CHARS: usize = 100;

/// A path in the settings, and its fault.
pub(super) type SettingFault = (String, String);

/// The rule of a member, as the error message says it.
pub(super) type Rules = fn(&str) -> Option<&'static str>;

/// The entries of a list.
pub(super) fn entries<T: DeserializeOwned + Default>(
    settings: &Settings,
    path: &str,
    rules: Rules,
    found: &mut Vec<SettingFault>,
) -> Vec<T> {
    match settings.structured(path) {
        Json::Array(entries) => {
            let read =
                |(i, entry): (usize, &Json)| read_entry(&format!("{path}[{i}]"), entry.clone(), rules, found);
            entries.iter().enumerate().map(read).collect()
        }
        _ => {
            found.push((path.to_owned(), "must be a list of mappings".to_owned()));
            Vec::new()
        }
    }
}

/// Reads one entry, again after each fault without the member at fault.
pub(super) fn read_entry<T: DeserializeOwned + Default>(
    at: &str,
    mut entry: Json,
    rules: Rules,
    found: &mut Vec<SettingFault>,
) -> T {
    loop {
        let error = match serde_path_to_error::deserialize(&entry) {
            Ok(descriptor) => return descriptor,
            Err(error) => error,
        };
        let mut path = at.to_owned();
        let mut rule = Some("must be a mapping");
        let mut given = Some(&entry);
        for segment in error.path() {
            match segment {
                Segment::Seq { index } => {
                    path += &format!("[{index}]");
                    given = given.and_then(|list| list.get(index));
                }
                Segment::Map { key } => {
                    path += &format!(".{key}");
                    given = given.and_then(|members| members.get(key));
                    rule = rules(key);
                }
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        let rule = match (rule, given) {
            (Some(rule), Some(given)) => {
                let given: String =
                    without_url_secrets(&given.to_string()).chars().take(SHOWN_CHARS).collect();
                format!("{rule}, not {given}")
            }
            _ => error.inner().to_string(),
        };
        found.push((path, rule));
        // A fault in a list removes the whole list, because removing one element would shift the paths of the others.
        let segments: Vec<_> = error.path().iter().collect();
        let members = segments.iter().rposition(|s| matches!(s, Segment::Map { .. }));
        if !members.is_some_and(|last| remove(&mut entry, &segments[..=last])) {
            return T::default();
        }
    }
}

/// Removes the member at `path`; false when there is none.
fn remove(tree: &mut Json, path: &[&Segment]) -> bool {
    match (tree, path) {
        (Json::Object(members), [Segment::Map { key }]) => members.shift_remove(key).is_some(),
        (Json::Object(members), [Segment::Map { key }, rest @ ..]) => {
            members.get_mut(key).is_some_and(|member| remove(member, rest))
        }
        (Json::Array(items), [Segment::Seq { index }, rest @ ..]) => {
            items.get_mut(*index).is_some_and(|item| remove(item, rest))
        }
        _ => false,
    }
}
