//! Learning the words of an installation, on the server's own account: nobody's request waits for it. Whoever writes next
//! packs by them; whoever reads finds them by their number.

use hyperfleet_core::{Error, Timestamp};

use crate::failure::{Failure, FailureKind};
use crate::packed::{PackedRow, better, sampled_versions};
use crate::{Reader, Store};

/// After so many values there may be something to learn.
const ENOUGH: usize = 500;

impl Store {
    /// Whether enough was written since the last look for another to be worth it.
    pub fn may_learn(&self) -> bool {
        self.dictionaries.packed_since_look() >= ENOUGH
    }

    /// Learns the words that recent rows of several resources share, if values get clearly shorter by them, and packs by
    /// them from then on. Returns the number of the dictionary. Another replica may be faster; then its words are taken.
    pub async fn learn_words(&self) -> Result<Option<u8>, Error> {
        let (forgotten, newest) = self.bounds().await?;
        let versions = sampled_versions(forgotten, newest);
        let rows = self.door("sample", self.reader.sample(versions)).await?;
        // Behind the rows: by now it holds whatever they were packed by.
        self.door("dictionaries", self.reader.read_dictionaries()).await?;
        let better = self.better_words(rows).await?;
        self.dictionaries.looked();
        let Some((number, words)) = better else { return Ok(None) };
        let now = Timestamp::now();
        self.door("keep_dictionary", self.reader.keep_dictionary(number, words, now)).await?;
        self.door("dictionaries", self.reader.read_dictionaries()).await?;
        Ok(Some(number))
    }

    /// A better dictionary than the one in use, and its number, as long as there are numbers. It takes long enough to be
    /// kept off the threads that serve.
    async fn better_words(&self, rows: Vec<PackedRow>) -> Result<Option<(u8, Vec<u8>)>, Error> {
        let known = self.dictionaries.clone();
        let learning = tokio::task::spawn_blocking(move || {
            let in_use = known.newest()?;
            let Some(number) = in_use.number.checked_add(1) else { return Ok(None) };
            Ok(better(&known, &in_use, &rows)?.map(|words| (number, words)))
        });
        let learned = learning.await.unwrap_or_else(|error| Err(Failure::new(FailureKind::Defect, error)));
        learned.map_err(Failure::into_error)
    }
}

impl Reader {
    async fn sample(&self, versions: Vec<i64>) -> Result<Vec<PackedRow>, Failure> {
        match self {
            Self::Sqlite(sqlite) => sqlite.sample(versions).await,
            Self::Postgres(postgres) => postgres.sample(&versions).await,
        }
    }

    async fn read_dictionaries(&self) -> Result<(), Failure> {
        match self {
            Self::Sqlite(sqlite) => sqlite.read_dictionaries().await,
            Self::Postgres(postgres) => postgres.read_dictionaries().await,
        }
    }

    async fn keep_dictionary(&self, number: u8, words: Vec<u8>, at: Timestamp) -> Result<(), Failure> {
        match self {
            Self::Sqlite(sqlite) => sqlite.keep_dictionary(number, words, at).await,
            Self::Postgres(postgres) => postgres.keep_dictionary(number, &words, at).await,
        }
    }
}
