//! What every part of a run gives in the end, whatever it measured: a table for people, JSON for machines, figures that
//! a later run can be held against, and the number of wrong answers, which must be 0. A new part of the program needs
//! nothing else to be printed, kept and compared.

use std::fmt::Display;

use serde_json::Value;

use crate::spread::Measured;

/// One part of a run.
pub(crate) trait Found: Display {
    /// Its name in the JSON.
    fn name(&self) -> &'static str;

    /// Wrong answers; with a single one, the run is no result.
    fn errors(&self) -> u64;

    /// All that was found.
    fn json(&self) -> Value;

    /// The figures that are compared with those of an earlier run.
    fn measured(&self) -> Vec<Measured>;
}
