//! The typed HTTP client of the API, which the Sentinel, the adapters and the command line share.
//! Nothing else talks HTTP to the API.
#![forbid(unsafe_code)]
