//! What can go wrong with a broker, in words that hold no address, no credentials and no message.

use std::error::Error;
use std::sync::Arc;

/// The error of a broker's client library, or a text. Clones share it.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// Why a broker did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BrokerError {
    /// The settings name something that cannot be.
    #[error("broker settings: {0}")]
    Configuration(String),
    /// The broker cannot be reached, or went away before it answered.
    #[error("the broker cannot be reached: {0}")]
    Unavailable(#[source] Cause),
    /// The broker did not answer in time, and may have the message or not.
    #[error("the broker did not confirm in time")]
    TimedOut,
    /// The broker refused.
    #[error("the broker refused: {0}")]
    Refused(#[source] Cause),
    /// No subscription receives the event.
    #[error("no subscription takes the events of topic {0}")]
    Unroutable(String),
    /// A subscription has too many unacknowledged events.
    #[error("subscription {0} has too many events waiting")]
    Full(String),
    /// There is no dead letter with this id.
    #[error("no dead letter has the id {0}")]
    NoSuchLetter(String),
}

impl BrokerError {
    pub(crate) fn unavailable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable(Arc::from(source.into()))
    }

    pub(crate) fn refused(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Refused(Arc::from(source.into()))
    }

    /// One word of a small fixed set, for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Configuration(_) => "configuration",
            Self::Unavailable(_) => "unavailable",
            Self::TimedOut => "timeout",
            Self::Refused(_) => "refused",
            Self::Unroutable(_) => "unroutable",
            Self::Full(_) => "full",
            Self::NoSuchLetter(_) => "no_such_letter",
        }
    }
}
