//! Schema migrations: numbered `.sql` files, embedded, each applied once and in order. A database
//! written by a newer release is refused rather than guessed at.

use std::fmt;

/// One step of the schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) number: i32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// What a migration run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    /// The steps applied now, by name.
    pub applied: Vec<&'static str>,
    /// The schema's number afterwards.
    pub at: i32,
}

/// Why a database could not be opened. The text is for the operator who starts the process.
#[derive(Debug)]
pub struct OpenError(String);

impl OpenError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

/// The steps that a database at `current` still needs.
pub(crate) fn pending(known: &[Migration], current: i32) -> Result<&[Migration], OpenError> {
    let newest = known.last().map_or(0, |m| m.number);
    if current > newest {
        return Err(OpenError::new(format!(
            "the database's schema is number {current}, but this release knows only up to {newest}: \
             it was written by a newer hyperfleet. Run that release, or restore a backup made before the upgrade"
        )));
    }
    let applied = known.iter().take_while(|m| m.number <= current).count();
    Ok(&known[applied..])
}

/// The error of a database that is behind while migrations are manual.
pub(crate) fn behind(pending: &[Migration], current: i32) -> OpenError {
    OpenError::new(format!(
        "the database's schema is number {current} and lacks {} of this release's steps ({}): \
         run `hyperfleet migrate`, or set database.migrate: auto",
        pending.len(),
        pending.iter().map(|m| m.name).collect::<Vec<_>>().join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Migration; 2] =
        [Migration { number: 1, name: "a", sql: "" }, Migration { number: 2, name: "b", sql: "" }];

    #[test]
    fn a_database_gets_the_steps_it_lacks_and_a_newer_one_is_refused() {
        assert_eq!(pending(&KNOWN, 0).unwrap().len(), 2);
        assert_eq!(pending(&KNOWN, 1).unwrap()[0].name, "b");
        assert!(pending(&KNOWN, 2).unwrap().is_empty());
        assert!(pending(&KNOWN, 3).unwrap_err().to_string().contains("newer hyperfleet"));
    }
}
