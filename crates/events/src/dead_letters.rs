//! Dead letters: what a subscription gave up, kept at the broker under `<subscription>-dlq` with the reason until
//! somebody looks. A letter is the message as it was; where, why and when it died stands in its headers.

use bytes::Bytes;
use hyperfleet_core::Timestamp;

use crate::broker::Broker;
use crate::error::BrokerError;
use crate::event::{Event, NotAnEvent};
use crate::message::{ATTEMPTS, FOR, Message, REASON, TIME, TOPIC};

/// Letters that one look finds at most.
const FOUND_AT_MOST: usize = 10_000;

/// The dead letters of one subscription to one topic.
#[derive(Debug, Clone)]
pub struct DeadLetters {
    broker: Broker,
    topic: String,
    subscription: String,
}

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its own id, not the event's.
    pub id: String,
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
            id: message.id,
            body: message.body,
        }
    }
}

impl DeadLetters {
    pub(crate) fn new(broker: Broker, topic: &str, subscription: &str) -> Self {
        Self { broker, topic: topic.to_owned(), subscription: subscription.to_owned() }
    }

    /// The oldest letters, up to `limit`. They stay where they are.
    pub async fn list(&self, limit: usize) -> Result<Vec<DeadLetter>, BrokerError> {
        let letters = self.broker.link.letters(&self.destination(), FOUND_AT_MOST).await?;
        let of_topic = |letter: &Message| letter.header(TOPIC).is_none_or(|topic| topic == self.topic);
        Ok(letters.into_iter().filter(of_topic).take(limit).map(DeadLetter::from).collect())
    }

    /// One letter.
    pub async fn show(&self, id: &str) -> Result<DeadLetter, BrokerError> {
        let letters = self.list(FOUND_AT_MOST).await?;
        letters
            .into_iter()
            .find(|letter| letter.id == id)
            .ok_or_else(|| BrokerError::NoSuchLetter(id.to_owned()))
    }

    /// Gives a letter to its subscription again, as if it had just been published to that one alone.
    pub async fn replay(&self, id: &str) -> Result<(), BrokerError> {
        let letter = self.show(id).await?;
        let message = Message::anew(letter.body, &[(FOR, &self.subscription)]);
        self.broker.publish_message(&self.topic, message).await?;
        self.drop(id).await
    }

    /// Throws a letter away.
    pub async fn drop(&self, id: &str) -> Result<(), BrokerError> {
        if self.broker.link.remove_letter(&self.destination(), id).await? {
            Ok(())
        } else {
            Err(BrokerError::NoSuchLetter(id.to_owned()))
        }
    }

    pub(crate) async fn put(&self, body: Bytes, attempts: u32, reason: &str) -> Result<(), BrokerError> {
        let headers = [
            (TOPIC, self.topic.as_str()),
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
