//! Events and the brokers that carry them: the envelope, and one small interface to publish, subscribe,
//! acknowledge, reject and look at dead letters, the same over every broker.
#![forbid(unsafe_code)]
