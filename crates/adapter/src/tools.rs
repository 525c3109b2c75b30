//! What authors try a task with: an execution against a recorded world, and the trace of an execution.

mod trace;
mod world;

pub use trace::Trace;
pub use world::{BadInput, World};
