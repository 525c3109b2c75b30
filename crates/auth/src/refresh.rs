//! The task that keeps an issuer's keys fresh: it reads its file when that changes, and asks its URL once an hour, when
//! a request needs a key that is not there, and after a failure. Whatever fails, the last good keys of that source stay.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::config::{Pace, Settings};
use crate::fetch::{self, fetch};
use crate::issuer::Issuer;
use crate::key::Key;
use crate::key_set::Document;
use crate::metrics::KeyMetrics;

/// See above.
#[derive(Debug)]
pub(crate) struct Refresh {
    issuer: Arc<Issuer>,
    pace: Pace,
    file: Source,
    file_stamp: Option<Stamp>,
    url: Source,
}

impl Refresh {
    /// Reads the file, so that its keys are there before the first request is.
    pub(crate) fn new(issuer: Arc<Issuer>, pace: Pace, metrics: &KeyMetrics) -> Self {
        let Settings { url: name, keys_file, keys_url, .. } = &issuer.settings;
        let file = Source::new("file", metrics.clone());
        let url = Source::new("url", metrics.clone());
        if keys_file.is_some() {
            metrics.expect(name, file.name);
        }
        if keys_url.is_some() {
            metrics.expect(name, url.name);
        }
        let mut refresh = Self { issuer, pace, file, file_stamp: None, url };
        if let Some(path) = &refresh.issuer.settings.keys_file {
            let looked = look(path, None);
            refresh.take_file(looked);
        }
        if refresh.issuer.settings.keys_url.is_none() {
            refresh.issuer.demand.finish();
        }
        refresh
    }

    /// Works until the shutdown begins.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.keep_fresh()).await;
    }

    async fn keep_fresh(&mut self) {
        let mut retry = Retry::new(self.pace);
        loop {
            self.look_at_file().await;
            let pause = if self.fetch().await { retry.succeeded() } else { retry.failed() };
            self.issuer.demand.finish();
            self.rest(Instant::now() + spread(pause)).await;
            self.issuer.demand.begin();
        }
    }

    /// Whether there are keys at the URL, or no need of any.
    async fn fetch(&mut self) -> bool {
        let settings = &self.issuer.settings;
        let Some(url) = &settings.keys_url else { return true };
        let fetched = fetch(url, settings.ca_file.as_deref(), self.pace.fetch_timeout).await;
        let done = self.url.take(&self.issuer, fetched.map(Into::into).map_err(|error| error.to_string()));
        self.publish();
        done && !self.url.keys.is_empty()
    }

    /// Watches the file until the URL is due or somebody asks for newer keys.
    async fn rest(&mut self, due: Instant) {
        let issuer = Arc::clone(&self.issuer);
        let Settings { keys_url, keys_file, .. } = &issuer.settings;
        loop {
            tokio::select! {
                () = issuer.demand.asked() => return,
                () = sleep_until(due), if keys_url.is_some() => return,
                () = sleep(self.pace.file_poll), if keys_file.is_some() => self.look_at_file().await,
            }
        }
    }

    async fn look_at_file(&mut self) {
        let Some(path) = self.issuer.settings.keys_file.clone() else { return };
        let known = self.file_stamp;
        match tokio::task::spawn_blocking(move || look(&path, known)).await {
            Ok(looked) => self.take_file(looked),
            Err(error) => {
                tracing::error!(issuer = %self.issuer.settings.url, %error, "looking at a file of keys failed");
            }
        }
    }

    fn take_file(&mut self, looked: Look) {
        match looked {
            Look::Unchanged => return,
            Look::Changed(stamp, document) => {
                self.file_stamp = Some(stamp);
                self.file.take(&self.issuer, Ok(document));
            }
            Look::Failed(error) => {
                self.file.take(&self.issuer, Err(error.to_string()));
            }
        }
        self.publish();
    }

    fn publish(&self) {
        let keys = self.file.keys.iter().chain(&self.url.keys).cloned().collect();
        if let Some(keys) = self.issuer.replace_keys(keys) {
            tracing::info!(issuer = %self.issuer.settings.url, keys, "the keys of an issuer have changed");
        }
    }
}

/// The pauses between fetches.
#[derive(Debug)]
struct Retry {
    pace: Pace,
    next: Duration,
}

impl Retry {
    fn new(pace: Pace) -> Self {
        Self { pace, next: pace.first_retry }
    }

    fn succeeded(&mut self) -> Duration {
        self.next = self.pace.first_retry;
        self.pace.refresh
    }

    fn failed(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.pace.last_retry);
        pause
    }
}

/// A place that keys come from, and what came last.
#[derive(Debug)]
struct Source {
    name: &'static str,
    keys: Vec<Arc<Key>>,
    document: Option<Vec<u8>>,
    /// What was wrong the last time: the log hears of it once.
    complaint: Option<String>,
    metrics: KeyMetrics,
}

impl Source {
    fn new(name: &'static str, metrics: KeyMetrics) -> Self {
        Self { name, keys: Vec::new(), document: None, complaint: None, metrics }
    }

    /// Takes what was found over the keys that are there; returns whether it was of any use.
    fn take(&mut self, issuer: &Issuer, found: Result<Vec<u8>, String>) -> bool {
        let (issuer, source) = (&issuer.settings.url, self.name);
        let read = found.and_then(|document| {
            if self.document.as_ref() == Some(&document) {
                return Ok(());
            }
            let Document { keys, left_out } = Document::read(&document).map_err(str::to_owned)?;
            for (kid, reason) in left_out {
                tracing::warn!(%issuer, source, kid, reason, "a key of an issuer is left out");
            }
            if keys.is_empty() {
                tracing::warn!(%issuer, source, "an issuer publishes no usable key");
            }
            (self.keys, self.document) = (keys, Some(document));
            Ok(())
        });
        let complaint = read.err();
        if let Some(error) = &complaint
            && complaint != self.complaint
        {
            let kept = self.keys.len();
            tracing::warn!(%issuer, source, error, kept, "cannot get the keys of an issuer, the known ones stay");
        }
        match &complaint {
            None => self.metrics.succeeded(issuer, source, self.keys.len()),
            Some(_) => self.metrics.failed(issuer, source),
        }
        self.complaint = complaint;
        self.complaint.is_none()
    }
}

/// What tells one content of a file from the next without reading it.
type Stamp = (Option<SystemTime>, u64, u64);

enum Look {
    Unchanged,
    Changed(Stamp, Vec<u8>),
    Failed(io::Error),
}

/// Reads the file if it has changed. Follows links, because a mounted volume changes by moving the link to its content.
fn look(path: &Path, known: Option<Stamp>) -> Look {
    let read = || {
        // Looked at before the read: a change during the read is then seen as one.
        let metadata = fs::metadata(path)?;
        let stamp = (metadata.modified().ok(), metadata.len(), metadata.ino());
        if known == Some(stamp) {
            return Ok(Look::Unchanged);
        }
        let mut document = Vec::new();
        File::open(path)?.take(fetch::MAX_BYTES as u64 + 1).read_to_end(&mut document)?;
        if document.len() > fetch::MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Look::Changed(stamp, document))
    };
    read().unwrap_or_else(Look::Failed)
}

/// A little less than `pause`, by chance: replicas that started together need not ask together.
fn spread(pause: Duration) -> Duration {
    let tenths = (RandomState::new().hash_one(0) % 1_000) as f64 / 10_000.0;
    pause.mul_f64(1.0 - tenths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_failure_to_failure_and_start_again_after_a_success() {
        let mut retry = Retry::new(Pace::default());
        let failures = |retry: &mut Retry, count: usize| -> Vec<u64> {
            std::iter::repeat_with(|| retry.failed().as_secs()).take(count).collect()
        };
        assert_eq!(failures(&mut retry, 8), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(retry.succeeded().as_secs(), 3600);
        assert_eq!(failures(&mut retry, 2), [1, 2]);
    }

    #[test]
    fn pauses_are_spread_but_never_longer_nor_much_shorter() {
        let pause = Duration::from_secs(3600);
        let spread: Vec<_> = std::iter::repeat_with(|| spread(pause)).take(1_000).collect();
        assert!(spread.iter().all(|one| (pause.mul_f64(0.9)..=pause).contains(one)));
        assert!(spread.iter().any(|one| *one != spread[0]));
    }
}
