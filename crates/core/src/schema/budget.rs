//! The budget of one check: every visit of a schema, comparison, pattern and format takes its steps from it, so a check
//! ends in bounded time and memory whatever the schema and the spec are.

/// The steps that are left.
#[derive(Debug)]
pub(super) struct Budget(u64);

/// The budget is spent, and the answer is not known.
#[derive(Debug)]
pub(super) struct Spent;

/// How many bytes of text one step reads.
const TEXT_PER_STEP: usize = 64;

impl Budget {
    pub(super) fn new(steps: u64) -> Self {
        Self(steps)
    }

    pub(super) fn left(&self) -> u64 {
        self.0
    }

    pub(super) fn take(&mut self, steps: u64) -> Result<(), Spent> {
        self.0 = self.0.checked_sub(steps).ok_or(Spent)?;
        Ok(())
    }

    /// Takes what it costs to read a text once.
    pub(super) fn take_text(&mut self, text: &str) -> Result<(), Spent> {
        self.take(1 + (text.len() / TEXT_PER_STEP) as u64)
    }
}
