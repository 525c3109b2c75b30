//! Where an expression stands decides what it may take and whether it knows the time; the language is one.

/// The two places of expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// A rule of the API or of a Sentinel: evaluated while others wait, and from the same input always the same.
    Rule,
    /// An expression of a task file: one of many of an execution that nobody else waits for.
    Task,
}

impl Dialect {
    /// Longest source in bytes.
    pub(crate) fn source_bytes(self) -> usize {
        match self {
            Self::Rule => crate::MAX_SOURCE_BYTES,
            Self::Task => 16 << 10,
        }
    }

    /// Steps of one evaluation. A rule takes a few milliseconds at most; one that looks for a finding takes some dozens
    /// of steps.
    pub(crate) fn steps(self) -> u64 {
        match self {
            Self::Rule => 50_000,
            Self::Task => 1_000_000,
        }
    }

    /// Longest result in bytes. The steps of a rule bound it already.
    pub(crate) fn result_bytes(self) -> usize {
        match self {
            Self::Rule => usize::MAX,
            Self::Task => 1 << 20,
        }
    }
}
