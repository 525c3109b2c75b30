//! The messages of Pub/Sub's gRPC interface, as far as they are used.

use std::collections::HashMap;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PubsubMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) data: Vec<u8>,
    #[prost(map = "string, string", tag = "2")]
    pub(crate) attributes: HashMap<String, String>,
    #[prost(string, tag = "3")]
    pub(crate) message_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Publish {
    #[prost(string, tag = "1")]
    pub(crate) topic: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) messages: Vec<PubsubMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Published {
    #[prost(string, repeated, tag = "1")]
    pub(crate) message_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Received {
    #[prost(string, tag = "1")]
    pub(crate) ack_id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) message: Option<PubsubMessage>,
    #[prost(int32, tag = "3")]
    pub(crate) delivery_attempt: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StreamingPull {
    #[prost(string, tag = "1")]
    pub(crate) subscription: String,
    #[prost(int64, tag = "7")]
    pub(crate) max_outstanding_messages: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Pulled {
    #[prost(message, repeated, tag = "1")]
    pub(crate) received_messages: Vec<Received>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Acknowledge {
    #[prost(string, tag = "1")]
    pub(crate) subscription: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) ack_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ModifyAckDeadline {
    #[prost(string, tag = "1")]
    pub(crate) subscription: String,
    #[prost(int32, tag = "3")]
    pub(crate) ack_deadline_seconds: i32,
    #[prost(string, repeated, tag = "4")]
    pub(crate) ack_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Empty {}
