//! Lists in fleets of several sizes. A question goes to all fleets in turn, so that whatever disturbs the machine
//! disturbs them alike.

use anyhow::Result;
use hyperfleet_testkit::{Database, Launch, Postgres, Store};

use crate::fleet::Fleet;
use crate::load::Load;
use crate::pgbench;
use crate::proportions::{Place, Proportions};
use crate::questions::Question;

/// How large the fleets are that are always there.
const SIZES: [usize; 2] = [10_000, 100_000];
/// How large one is that takes minutes to make.
const MILLION: usize = 1_000_000;
/// The name of reading everything page by page.
pub(crate) const SCAN: &str = "list scan";

/// What is to be measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// The part of the names of rows, such as `sqlite list name`, that are wanted.
    pub(crate) only: &'a str,
    pub(crate) million: bool,
}

impl Wanted<'_> {
    fn wants(self, store: &str, name: &str) -> bool {
        format!("{store} {name}").contains(self.only)
    }

    /// Whether a question is wanted. The yardstick is, wherever any other question is.
    fn asks(self, store: &str, question: Question) -> bool {
        match question {
            Question::Get => Question::ALL.into_iter().any(|q| q != Question::Get && self.asks(store, q)),
            question => self.wants(store, question.name()),
        }
    }

    /// Whether anything of this is wanted on a store.
    pub(crate) fn lists(self, store: &str) -> bool {
        self.asks(store, Question::Get) || self.wants(store, SCAN)
    }
}

/// All fleets, and what they have shown so far.
pub(crate) struct Listing<'a> {
    wanted: Wanted<'a>,
    fleets: Vec<Fleet>,
    /// They go with this value.
    _databases: Vec<Database>,
    pub(crate) found: Proportions,
}

impl<'a> Listing<'a> {
    /// Makes the fleets.
    pub(crate) async fn start(
        wanted: Wanted<'a>,
        stores: &[&'static str],
        launch: &Launch,
        postgres: &Postgres,
    ) -> Result<Self> {
        let (mut fleets, mut databases) = (Vec::new(), Vec::new());
        let sizes = SIZES.into_iter().chain(wanted.million.then_some(MILLION));
        for size in sizes {
            for &store in stores.iter().filter(|store| wanted.lists(store)) {
                eprintln!("{store}: making {size} clusters for lists");
                let fleet = if store == "sqlite" {
                    Fleet::start(store, launch, Store::Sqlite, size).await?
                } else {
                    let database = postgres.database().await;
                    let fleet = Fleet::start(store, launch, Store::Postgres(database.url()), size).await?;
                    pgbench::execute(postgres, &database, "VACUUM ANALYZE")?;
                    databases.push(database);
                    fleet
                };
                fleet.check().await?;
                fleets.push(fleet);
            }
        }
        Ok(Self { wanted, fleets, _databases: databases, found: Proportions::default() })
    }

    /// One round of every question with these connections.
    pub(crate) fn round(&mut self, load: &Load) -> Result<()> {
        for question in Question::ALL {
            for fleet in self.fleets.iter().filter(|fleet| self.wanted.asks(fleet.store, question)) {
                let Some(target) = fleet.target(question)? else { continue };
                let outcome = load.run(&target)?;
                let (store, size, connections) = (fleet.store, fleet.size(), load.connections);
                if let Some(error) = &outcome.first_error {
                    let name = question.name();
                    eprintln!("{store} {name}, {size}, first of {} errors: {error}", outcome.errors);
                }
                self.found.add(Place { store, size, question, connections }, outcome);
            }
        }
        Ok(())
    }

    /// Reads every fleet once from end to end, and asks every question once more for its whole answer.
    pub(crate) async fn scan(&mut self) -> Result<()> {
        for fleet in &self.fleets {
            if self.wanted.wants(fleet.store, SCAN) {
                self.found.add_scan(fleet.store, fleet.size(), fleet.scan().await?);
            }
            fleet.check().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(only: &str, store: &str) -> Vec<&'static str> {
        let wanted = Wanted { only, million: false };
        let all = Question::ALL.into_iter().filter(|question| wanted.asks(store, *question));
        all.map(Question::name).collect()
    }

    #[test]
    fn a_part_of_a_name_chooses_questions_and_brings_the_yardstick() {
        assert_eq!(asked("sqlite list name", "sqlite"), ["get by id", "list name"]);
        assert!(asked("sqlite list name", "postgresql").is_empty());
        assert_eq!(asked("list", "postgresql").len(), Question::ALL.len());
        assert!(asked("postgresql get", "postgresql").is_empty());
        assert!(asked("report", "sqlite").is_empty());
    }
}
