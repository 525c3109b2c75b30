//! Decides when a resource needs work, and tells the adapters by a small event. It never does the work.
#![forbid(unsafe_code)]
