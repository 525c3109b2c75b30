//! Dead letters: messages that a subscription gave up, kept by the broker under `<subscription>-dlq`. A dead letter is
//! the unchanged message; its headers tell topic, reason, delivery count and time.

use std::collections::HashSet;

use bytes::Bytes;
use hyperfleet_core::Timestamp;

use crate::broker::Broker;
use crate::error::BrokerError;
use crate::event::{Event, NotAnEvent};
use crate::message::{ATTEMPTS, Message, REASON, SUBSCRIPTION, TIME, TOPIC};

/// Dead letters that one call lists.
pub(crate) const MAX_LISTED: u16 = 10_000;
/// Dead letters that are replayed before they are removed. If the process ends in between, they are replayed twice.
const REPLAY_BATCH: usize = 100;

/// The dead letters of one subscription, to one topic or to all.
#[derive(Debug, Clone)]
pub struct DeadLetters {
    broker: Broker,
    topic: Option<String>,
    subscription: String,
}

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its own id, not the event's.
    pub id: String,
    /// The topic; `None` if the broker itself made the dead letter.
    pub topic: Option<String>,
    /// Why it was given up.
    pub reason: String,
    /// Its deliveries.
    pub attempts: u32,
    /// When it was given up.
    pub time: Option<Timestamp>,
    /// The message.
    pub body: Bytes,
}

impl DeadLetter {
    /// The event, when the message is one.
    pub fn event(&self) -> Result<Event, NotAnEvent> {
        Event::read(&self.body)
    }
}

impl From<Message> for DeadLetter {
    /// A dead letter that the broker itself made has no headers.
    fn from(message: Message) -> Self {
        let header = |name| message.header(name);
        Self {
            reason: header(REASON).unwrap_or("given up by the broker").to_owned(),
            attempts: header(ATTEMPTS).and_then(|text| text.parse().ok()).unwrap_or(0),
            time: header(TIME).and_then(Timestamp::parse),
            topic: header(TOPIC).filter(|topic| !topic.is_empty()).map(str::to_owned),
            id: message.id,
            body: message.body,
        }
    }
}

impl DeadLetters {
    pub(crate) fn new(broker: Broker, topic: Option<&str>, subscription: &str) -> Self {
        Self { broker, topic: topic.map(str::to_owned), subscription: subscription.to_owned() }
    }

    /// The oldest dead letters, up to `limit`, without removing them.
    pub async fn list(&self, limit: usize) -> Result<Vec<DeadLetter>, BrokerError> {
        let dead_letters = self.broker.backend.dead_letters(&self.destination(), MAX_LISTED.into()).await?;
        let of_topic = |letter: &Message| match (letter.header(TOPIC), &self.topic) {
            (Some(of), Some(wanted)) => of == wanted,
            _ => true,
        };
        Ok(dead_letters.into_iter().filter(of_topic).take(limit).map(DeadLetter::from).collect())
    }

    /// One dead letter.
    pub async fn show(&self, id: &str) -> Result<DeadLetter, BrokerError> {
        let dead_letters = self.list(MAX_LISTED.into()).await?;
        dead_letters
            .into_iter()
            .find(|letter| letter.id == id)
            .ok_or_else(|| BrokerError::NoSuchLetter(id.to_owned()))
    }

    /// Publishes a dead letter again, for its subscription alone, and removes it.
    pub async fn replay(&self, id: &str) -> Result<(), BrokerError> {
        let letter = self.show(id).await?;
        self.replay_all(&[letter]).await
    }

    /// Replays listed dead letters. After an error some of them are published, of which some may not be removed.
    pub async fn replay_all(&self, dead_letters: &[DeadLetter]) -> Result<(), BrokerError> {
        for some in dead_letters.chunks(REPLAY_BATCH) {
            for letter in some {
                let topic = letter.topic.as_ref().or(self.topic.as_ref()).ok_or_else(|| {
                    let why = format!("letter {} does not tell its topic, so one must be named", letter.id);
                    BrokerError::Configuration(why)
                })?;
                let message =
                    Message::with_new_id(letter.body.clone(), &[(SUBSCRIPTION, &self.subscription)]);
                self.broker.publish_message(topic, message).await?;
            }
            self.drop_all(some).await?;
        }
        Ok(())
    }

    /// Deletes a dead letter.
    pub async fn drop(&self, id: &str) -> Result<(), BrokerError> {
        match self.broker.backend.remove_dead_letters(&self.destination(), &HashSet::from([id])).await? {
            0 => Err(BrokerError::NoSuchLetter(id.to_owned())),
            _ => Ok(()),
        }
    }

    /// Deletes listed dead letters, and returns how many still existed.
    pub async fn drop_all(&self, dead_letters: &[DeadLetter]) -> Result<usize, BrokerError> {
        let ids = dead_letters.iter().map(|letter| letter.id.as_str()).collect();
        self.broker.backend.remove_dead_letters(&self.destination(), &ids).await
    }

    pub(crate) async fn put(
        &self,
        topic: &str,
        body: Bytes,
        attempts: u32,
        reason: &str,
    ) -> Result<(), BrokerError> {
        let headers = [
            (TOPIC, topic),
            (REASON, reason),
            (ATTEMPTS, &attempts.to_string()),
            (TIME, &Timestamp::now().to_string()),
        ];
        self.broker.backend.put_dead_letter(&self.destination(), Message::with_new_id(body, &headers)).await
    }

    fn destination(&self) -> String {
        format!("{}-dlq", self.subscription)
    }
}

/// The dead letters to remove during a visit of all. Some brokers show a message twice, and some hold two with one id, so
/// distinct ids are counted.
#[derive(Debug)]
pub(crate) struct Removal<'a> {
    ids: &'a HashSet<&'a str>,
    found: HashSet<&'a str>,
}

impl<'a> Removal<'a> {
    pub(crate) fn new(ids: &'a HashSet<&'a str>) -> Self {
        Self { ids, found: HashSet::new() }
    }

    /// Whether to remove this one.
    pub(crate) fn matches(&mut self, id: &str) -> bool {
        let wanted = self.ids.get(id).copied();
        self.found.extend(wanted);
        wanted.is_some()
    }

    pub(crate) fn removed(&self) -> usize {
        self.found.len()
    }

    pub(crate) fn is_incomplete(&self) -> bool {
        self.found.len() < self.ids.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_that_is_shown_twice_is_counted_once() {
        let ids = HashSet::from(["a", "b"]);
        let mut removal = Removal::new(&ids);
        for (id, goes, more) in
            [("a", true, true), ("x", false, true), ("a", true, true), ("b", true, false), ("b", true, false)]
        {
            assert_eq!((removal.matches(id), removal.is_incomplete()), (goes, more), "{id}");
        }
        assert_eq!(removal.removed(), 2);
    }

    #[test]
    fn a_dead_letter_without_a_topic_header_has_no_topic() {
        let topic =
            |headers: &[(&str, &str)]| DeadLetter::from(Message::with_new_id(Bytes::new(), headers)).topic;
        assert_eq!((topic(&[]), topic(&[(TOPIC, "")])), (None, None));
        assert_eq!(topic(&[(TOPIC, "t")]).as_deref(), Some("t"));
    }
}
