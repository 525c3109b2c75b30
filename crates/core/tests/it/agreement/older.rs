//! The same history with the older conditions beside the others, whatever the model knows of them: they must be a
//! matter of their own, and come out the same when they are computed anew.

use std::sync::Arc;

use hyperfleet_core::rules::{Outcome, Rulebook};
use hyperfleet_core::{Command, Error, Timestamp};
use serde_json::Value;

use super::recompute;
use crate::database::Database;

pub(super) struct Older {
    database: Database,
}

impl Older {
    pub(super) fn new(rulebook: Rulebook) -> Self {
        Self { database: Database::new(Arc::new(Rulebook { legacy_conditions: true, ..rulebook })) }
    }

    pub(super) fn run(&mut self, commands: &[Command], now: Timestamp) -> Vec<Result<Outcome, Error>> {
        self.database.run(commands, now)
    }

    pub(super) fn restart(&mut self, rulebook: Rulebook) {
        self.database.rulebook = Arc::new(Rulebook { legacy_conditions: true, ..rulebook });
    }

    /// Everything but the older conditions is as it is without them.
    pub(super) fn check(&self, without: &Database, now: Timestamp) {
        assert!(self.database.rows.keys().eq(without.rows.keys()), "the same resources");
        assert_eq!(self.database.reports, without.reports);
        for (row, plain) in self.database.rows.values().zip(without.rows.values()) {
            assert!(row.same_desired_state(plain) && row.pending_since == plain.pending_since);
            let mut conditions: Vec<Value> = row.conditions.parse().unwrap();
            let older: Vec<Value> = conditions.drain(2..4).map(|mut c| c["type"].take()).collect();
            assert_eq!(older, ["Available", "Ready"]);
            assert_eq!(conditions, plain.conditions.parse::<Vec<Value>>().unwrap());
        }
        let mut again = self.database.clone();
        again.run(&[recompute(self.database.rows.keys().copied().collect())], now).remove(0).unwrap();
        assert_eq!(again.rows, self.database.rows, "computed anew it comes out the same");
        again.check_computed();
    }
}
