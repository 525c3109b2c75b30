//! Conditions: what the API says about a resource, in Kubernetes' words.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It holds.
    True,
    /// It does not.
    False,
}

/// One entry of `status.conditions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What is claimed, such as `Reconciled`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: Status,
    /// Why, for machines.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// The generation this speaks about.
    pub observed_generation: i64,
    /// When the condition first appeared.
    pub created_time: Timestamp,
    /// When it was last confirmed.
    pub last_updated_time: Timestamp,
    /// When its status last flipped.
    pub last_transition_time: Timestamp,
}
