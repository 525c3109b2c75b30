//! A message as brokers carry it: a body, an id, and headers of our own. Headers are text on one line and short,
//! because that is what every broker can carry.

use bytes::Bytes;
use uuid::Uuid;

use crate::event::Event;

/// The one subscription that is to take a message; all others pass over it.
pub(crate) const FOR: &str = "hyperfleet-subscription";
/// Where a dead letter came from, why and when it died, and how often it was handed out.
pub(crate) const TOPIC: &str = "hyperfleet-topic";
pub(crate) const REASON: &str = "hyperfleet-reason";
pub(crate) const ATTEMPTS: &str = "hyperfleet-attempts";
pub(crate) const TIME: &str = "hyperfleet-time";

/// Longest header, in bytes: the limit of Pub/Sub's attributes.
const LONGEST: usize = 1024;

/// Body, id and headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// By which a broker may know a message that it has already; an event's own id when it is published.
    pub(crate) id: String,
    pub(crate) body: Bytes,
    pub(crate) headers: Vec<(String, String)>,
}

impl Message {
    pub(crate) fn of(event: &Event) -> Self {
        Self { id: event.id.clone(), body: event.to_json().into(), headers: Vec::new() }
    }

    /// The same body as another message, with an id of its own.
    pub(crate) fn anew(body: Bytes, headers: &[(&str, &str)]) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), one_line(value))).collect();
        Self { id: Uuid::now_v7().to_string(), body, headers }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// Text that fits a header: whatever breaks a line becomes a space, and the end is cut.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(LONGEST));
    for letter in text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }) {
        if line.len() + letter.len_utf8() > LONGEST {
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
        let message = Message::anew(Bytes::new(), &[(REASON, "a\r\nb: c\0"), (TOPIC, &"ä".repeat(LONGEST))]);
        assert_eq!(message.header(REASON), Some("a  b: c"));
        assert_eq!(message.header(TOPIC), Some("ä".repeat(LONGEST / 2).as_str()));
    }
}
