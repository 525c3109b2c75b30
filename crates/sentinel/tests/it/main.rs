//! The Sentinel from outside: its decisions by name, any history of one resource, and whole fleets with everything
//! around them failing.
#![forbid(unsafe_code)]

mod configuration;
mod given;
mod history;
mod simulation;
mod table;
