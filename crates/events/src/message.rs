//! A message as brokers carry it: a body, an id, and headers of our own. Headers are text on one line and short,
//! because that is what every broker can carry.

use bytes::Bytes;
use uuid::Uuid;

use crate::event::Event;

/// The one subscription that a message is for; others acknowledge it.
pub(crate) const SUBSCRIPTION: &str = "hyperfleet-subscription";
/// Of dead letters: the topic, the reason, the delivery count and the time.
pub(crate) const TOPIC: &str = "hyperfleet-topic";
pub(crate) const REASON: &str = "hyperfleet-reason";
pub(crate) const ATTEMPTS: &str = "hyperfleet-attempts";
pub(crate) const TIME: &str = "hyperfleet-time";

/// Longest header, in bytes: the limit of Pub/Sub's attributes.
const MAX_HEADER: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// By which a broker may recognise a duplicate; the event's id when it is published.
    pub(crate) id: String,
    pub(crate) body: Bytes,
    pub(crate) headers: Vec<(String, String)>,
}

impl Message {
    pub(crate) fn of(event: &Event) -> Self {
        Self { id: event.id.clone(), body: event.to_json().into(), headers: Vec::new() }
    }

    /// A message with a new id.
    pub(crate) fn with_new_id(body: Bytes, headers: &[(&str, &str)]) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), one_line(value))).collect();
        Self { id: Uuid::now_v7().to_string(), body, headers }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// Text for a header: control characters become spaces, and the end is cut.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(MAX_HEADER));
    for letter in text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }) {
        if line.len() + letter.len_utf8() > MAX_HEADER {
            break;
        }
        line.push(letter);
    }
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_one_line_and_is_cut_between_characters() {
        let message =
            Message::with_new_id(Bytes::new(), &[(REASON, "a\r\nb: c\0"), (TOPIC, &"ä".repeat(MAX_HEADER))]);
        assert_eq!(message.header(REASON), Some("a  b: c"));
        assert_eq!(message.header(TOPIC), Some("ä".repeat(MAX_HEADER / 2).as_str()));
    }
}
