//! Schema migrations: numbered `.sql` files, embedded, each applied once and in order. A released file never changes.
//!
//! A release applies the steps that are missing. It also starts on a newer schema, as long as each further step says
//! that it works with this release, so that replicas can be replaced, and restart, in any order. It refuses any other
//! schema. `CONTRIBUTING.md` has the steps by which a change gets there.

use std::fmt;

/// One step of the schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) number: i32,
    pub(crate) name: &'static str,
    /// The oldest schema whose release still works after this step.
    pub(crate) compatible_from: i32,
    pub(crate) sql: &'static str,
}

/// The result of a migration run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    /// The steps applied now, by name.
    pub applied: Vec<&'static str>,
    /// The number of the schema afterwards.
    pub at: i32,
}

impl MigrationReport {
    /// The report of a run that applied `pending` after `before`.
    pub(crate) fn of(pending: &[Migration], before: &[Applied]) -> Self {
        Self {
            applied: pending.iter().map(|step| step.name).collect(),
            at: pending.last().map_or_else(|| current(before), |step| step.number),
        }
    }
}

/// Why a database could not be opened, for the operator.
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

/// A step that was applied to a database.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) number: i32,
    pub(crate) name: String,
    pub(crate) compatible_from: i32,
}

/// The steps that a database lacks to which `applied` were applied, in order.
pub(crate) fn pending<'a>(steps: &'a [Migration], applied: &[Applied]) -> Result<&'a [Migration], OpenError> {
    let differs = |(step, applied): &(&Migration, &Applied)| {
        (step.number, step.name) != (applied.number, applied.name.as_str())
    };
    if let Some((step, applied)) = steps.iter().zip(applied).find(differs) {
        return Err(OpenError::new(format!(
            "step {} of the database's schema is {}, but that of this release is {}: the database was \
             not made by a release of hyperfleet. Use an empty database",
            step.number, applied.name, step.name
        )));
    }
    let newest = steps.last().map_or(0, |step| step.number);
    let further = applied.get(steps.len()..).unwrap_or_default();
    if let Some(step) = further.iter().find(|step| step.compatible_from > newest) {
        return Err(OpenError::new(format!(
            "the database's schema is number {}, but this release knows only up to {newest}, and step {} works \
             only with releases that know {}: it was written by a newer hyperfleet. Run that release, or restore a \
             backup made before the upgrade",
            current(applied),
            step.name,
            step.compatible_from
        )));
    }
    Ok(steps.get(applied.len()..).unwrap_or_default())
}

/// Whether a release with these steps works with a database to which `applied` were applied.
pub(crate) fn check(steps: &[Migration], applied: &[Applied]) -> Result<(), OpenError> {
    match pending(steps, applied)? {
        [] => Ok(()),
        pending => Err(behind(pending, applied)),
    }
}

/// The number of a schema.
fn current(applied: &[Applied]) -> i32 {
    applied.last().map_or(0, |step| step.number)
}

/// The error for pending migrations while migrations are manual.
pub(crate) fn behind(pending: &[Migration], applied: &[Applied]) -> OpenError {
    OpenError::new(format!(
        "the database's schema is number {} and lacks {} of this release's steps ({}): \
         run `hyperfleet migrate`, or set database.migrate: auto",
        current(applied),
        pending.len(),
        pending.iter().map(|m| m.name).collect::<Vec<_>>().join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn step(number: i32, name: &'static str) -> Migration {
        Migration { number, name, compatible_from: 1, sql: "" }
    }

    const STEPS: [Migration; 2] = [step(1, "a"), step(2, "b")];

    /// The steps that a database lacks to which those of `applied` were applied, each compatible from a number.
    fn pending(applied: &[(&str, i32)]) -> Result<Vec<&'static str>, String> {
        let applied: Vec<Applied> = (1..)
            .zip(applied)
            .map(|(number, (name, compatible_from))| Applied {
                number,
                name: (*name).to_owned(),
                compatible_from: *compatible_from,
            })
            .collect();
        let steps = super::pending(&STEPS, &applied).map_err(|error| error.to_string())?;
        Ok(steps.iter().map(|step| step.name).collect())
    }

    #[test]
    fn a_database_gets_its_pending_migrations() {
        assert_eq!(pending(&[]).unwrap(), ["a", "b"]);
        assert_eq!(pending(&[("a", 1)]).unwrap(), ["b"]);
        assert!(pending(&[("a", 1), ("b", 1)]).unwrap().is_empty());
    }

    #[test]
    fn a_newer_database_is_accepted_while_each_further_step_works_with_this_release() {
        let own = [("a", 1), ("b", 2)];
        assert!(pending(&[own[0], own[1], ("c", 2)]).unwrap().is_empty());
        assert!(pending(&[own[0], own[1], ("c", 2), ("d", 1)]).unwrap().is_empty());
        for further in [&[("c", 3)][..], &[("c", 3), ("d", 2)], &[("c", 2), ("d", 3)]] {
            let refused = pending(&[&own, further].concat()).unwrap_err();
            assert!(refused.contains("newer hyperfleet"), "{refused}");
        }
    }

    #[test]
    fn a_database_whose_steps_have_other_names_is_refused() {
        for applied in [&["z"][..], &["a", "z"], &["z", "y", "x"]] {
            let applied: Vec<_> = applied.iter().map(|name| (*name, 1)).collect();
            assert!(pending(&applied).unwrap_err().contains("Use an empty database"), "{applied:?}");
        }
    }
}
