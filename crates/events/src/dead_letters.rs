//! Dead letters: what a subscription gave up, kept at the broker under `<subscription>-dlq` with the reason until
//! somebody looks. A letter is the message as it was; where, why and when it died stands in its headers.

use std::collections::HashSet;

use bytes::Bytes;
use hyperfleet_core::Timestamp;

use crate::broker::Broker;
use crate::error::BrokerError;
use crate::event::{Event, NotAnEvent};
use crate::message::{ATTEMPTS, FOR, Message, REASON, TIME, TOPIC};

/// Letters that one look finds at most.
pub(crate) const FOUND_AT_MOST: u16 = 10_000;
/// Letters that are replayed before they are removed: as many come twice if the process ends in between.
const TOGETHER: usize = 100;

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
    /// Where it was published; nothing for what the broker itself gave up.
    pub topic: Option<String>,
    /// Why it was given up.
    pub reason: String,
    /// How often it was handed out.
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
    /// What the broker itself buried has no reason of ours.
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

    /// The oldest letters, up to `limit`. They stay where they are.
    pub async fn list(&self, limit: usize) -> Result<Vec<DeadLetter>, BrokerError> {
        let letters = self.broker.link.letters(&self.destination(), FOUND_AT_MOST.into()).await?;
        let of_topic = |letter: &Message| match (letter.header(TOPIC), &self.topic) {
            (Some(of), Some(wanted)) => of == wanted,
            _ => true,
        };
        Ok(letters.into_iter().filter(of_topic).take(limit).map(DeadLetter::from).collect())
    }

    /// One letter.
    pub async fn show(&self, id: &str) -> Result<DeadLetter, BrokerError> {
        let letters = self.list(FOUND_AT_MOST.into()).await?;
        letters
            .into_iter()
            .find(|letter| letter.id == id)
            .ok_or_else(|| BrokerError::NoSuchLetter(id.to_owned()))
    }

    /// Gives a letter to its subscription again, as if it had just been published to that one alone.
    pub async fn replay(&self, id: &str) -> Result<(), BrokerError> {
        let letter = self.show(id).await?;
        self.replay_all(&[letter]).await
    }

    /// Does so with many letters of a list. After an error some were given to it, and some of these may be
    /// letters still.
    pub async fn replay_all(&self, letters: &[DeadLetter]) -> Result<(), BrokerError> {
        for some in letters.chunks(TOGETHER) {
            for letter in some {
                let topic = letter.topic.as_ref().or(self.topic.as_ref()).ok_or_else(|| {
                    let why = format!("letter {} does not tell its topic, so one must be named", letter.id);
                    BrokerError::Configuration(why)
                })?;
                let message = Message::anew(letter.body.clone(), &[(FOR, &self.subscription)]);
                self.broker.publish_message(topic, message).await?;
            }
            self.drop_all(some).await?;
        }
        Ok(())
    }

    /// Throws a letter away.
    pub async fn drop(&self, id: &str) -> Result<(), BrokerError> {
        match self.broker.link.remove_letters(&self.destination(), &HashSet::from([id])).await? {
            0 => Err(BrokerError::NoSuchLetter(id.to_owned())),
            _ => Ok(()),
        }
    }

    /// Throws many letters of a list away, and says how many of them were still there.
    pub async fn drop_all(&self, letters: &[DeadLetter]) -> Result<usize, BrokerError> {
        let ids = letters.iter().map(|letter| letter.id.as_str()).collect();
        self.broker.link.remove_letters(&self.destination(), &ids).await
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
        self.broker.link.put_letter(&self.destination(), Message::anew(body, &headers)).await
    }

    fn destination(&self) -> String {
        format!("{}-dlq", self.subscription)
    }
}

/// The letters that are to go, while those that are there come by. Some brokers show one twice, and some hold two of one
/// id: neither may pass for another that is still to come.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    ids: &'a HashSet<&'a str>,
    met: HashSet<&'a str>,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(ids: &'a HashSet<&'a str>) -> Self {
        Self { ids, met: HashSet::new() }
    }

    /// Whether this one is to go.
    pub(crate) fn meets(&mut self, id: &str) -> bool {
        let wanted = self.ids.get(id).copied();
        self.met.extend(wanted);
        wanted.is_some()
    }

    /// How many of them were there.
    pub(crate) fn met(&self) -> usize {
        self.met.len()
    }

    /// Whether any were not seen yet.
    pub(crate) fn is_more(&self) -> bool {
        self.met.len() < self.ids.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_that_comes_twice_counts_once_and_hides_no_other() {
        let ids = HashSet::from(["a", "b"]);
        let mut wanted = Wanted::new(&ids);
        for (id, goes, more) in
            [("a", true, true), ("x", false, true), ("a", true, true), ("b", true, false), ("b", true, false)]
        {
            assert_eq!((wanted.meets(id), wanted.is_more()), (goes, more), "{id}");
        }
        assert_eq!(wanted.met(), 2);
    }

    #[test]
    fn a_letter_without_a_topic_tells_none() {
        let topic = |headers: &[(&str, &str)]| DeadLetter::from(Message::anew(Bytes::new(), headers)).topic;
        assert_eq!((topic(&[]), topic(&[(TOPIC, "")])), (None, None));
        assert_eq!(topic(&[(TOPIC, "t")]).as_deref(), Some("t"));
    }
}
