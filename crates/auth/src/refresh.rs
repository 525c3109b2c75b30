//! The task that refreshes an issuer's keys: it reads the file when it changes, and fetches the URL once an hour, on
//! request and after a failure. After a failure the last good keys of that source stay.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::config::{RefreshSchedule, Settings};
use crate::fetch::{self, fetch};
use crate::issuer::Issuer;
use crate::key::Key;
use crate::key_set::Document;
use crate::metrics::KeyMetrics;

/// See above.
#[derive(Debug)]
pub(crate) struct Refresh {
    issuer: Arc<Issuer>,
    schedule: RefreshSchedule,
    file: Source,
    file_version: Option<FileVersion>,
    url: Source,
}

impl Refresh {
    /// Reads the file, so that its keys are there before the first request is.
    pub(crate) fn new(issuer: Arc<Issuer>, schedule: RefreshSchedule, metrics: &KeyMetrics) -> Self {
        let Settings { url: name, keys_file, keys_url, .. } = &issuer.settings;
        let file = Source::new("file", metrics.clone());
        let url = Source::new("url", metrics.clone());
        if keys_file.is_some() {
            metrics.expect(name, file.name);
        }
        if keys_url.is_some() {
            metrics.expect(name, url.name);
        }
        let mut refresh = Self { issuer, schedule, file, file_version: None, url };
        if let Some(path) = &refresh.issuer.settings.keys_file {
            let change = check_file(path, None);
            refresh.take_file(change);
        }
        if refresh.issuer.settings.keys_url.is_none() {
            refresh.issuer.fetch_requests.finish();
        }
        refresh
    }

    /// Works until the shutdown begins.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.keep_fresh()).await;
    }

    async fn keep_fresh(&mut self) {
        let mut retry = Retry::new(self.schedule);
        loop {
            self.refresh_file().await;
            let pause = if self.fetch().await { retry.succeeded() } else { retry.failed() };
            self.issuer.fetch_requests.finish();
            self.sleep_until_due(Instant::now() + spread(pause)).await;
            self.issuer.fetch_requests.begin();
        }
    }

    /// Whether there are keys at the URL, or no need of any.
    async fn fetch(&mut self) -> bool {
        let settings = &self.issuer.settings;
        let Some(url) = &settings.keys_url else { return true };
        let fetched = fetch(url, settings.ca_file.as_deref(), self.schedule.fetch_timeout).await;
        let done = self.url.take(&self.issuer, fetched.map(Into::into).map_err(|error| error.to_string()));
        self.publish();
        done && !self.url.keys.is_empty()
    }

    /// Watches the file until the URL is due or newer keys are requested.
    async fn sleep_until_due(&mut self, due: Instant) {
        let issuer = Arc::clone(&self.issuer);
        let Settings { keys_url, keys_file, .. } = &issuer.settings;
        loop {
            tokio::select! {
                () = issuer.fetch_requests.asked() => return,
                () = sleep_until(due), if keys_url.is_some() => return,
                () = sleep(self.schedule.file_poll), if keys_file.is_some() => self.refresh_file().await,
            }
        }
    }

    async fn refresh_file(&mut self) {
        let Some(path) = self.issuer.settings.keys_file.clone() else { return };
        let known = self.file_version;
        match tokio::task::spawn_blocking(move || check_file(&path, known)).await {
            Ok(change) => self.take_file(change),
            Err(error) => {
                tracing::error!(issuer = %self.issuer.settings.url, %error, "looking at a file of keys failed");
            }
        }
    }

    fn take_file(&mut self, change: FileChange) {
        match change {
            FileChange::Unchanged => return,
            FileChange::Changed(stamp, document) => {
                self.file_version = Some(stamp);
                self.file.take(&self.issuer, Ok(document));
            }
            FileChange::Failed(error) => {
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
    schedule: RefreshSchedule,
    retries: ExponentialBackoff,
}

impl Retry {
    fn new(schedule: RefreshSchedule) -> Self {
        let retries = ExponentialBuilder::new()
            .with_min_delay(schedule.first_retry)
            .with_max_delay(schedule.last_retry)
            .without_max_times()
            .build();
        Self { schedule, retries }
    }

    fn succeeded(&mut self) -> Duration {
        *self = Self::new(self.schedule);
        self.schedule.refresh
    }

    fn failed(&mut self) -> Duration {
        self.retries.next().unwrap_or(self.schedule.last_retry)
    }
}

/// A source of keys, and its last keys.
#[derive(Debug)]
struct Source {
    name: &'static str,
    keys: Vec<Arc<Key>>,
    document: Option<Vec<u8>>,
    /// The last failure, which is logged once.
    error: Option<String>,
    metrics: KeyMetrics,
}

impl Source {
    fn new(name: &'static str, metrics: KeyMetrics) -> Self {
        Self { name, keys: Vec::new(), document: None, error: None, metrics }
    }

    /// Replaces the keys by the fetched ones; returns whether these were valid.
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
        let error = read.err();
        if let Some(error) = &error
            && self.error.as_ref() != Some(error)
        {
            let kept = self.keys.len();
            tracing::warn!(%issuer, source, error, kept, "cannot get the keys of an issuer, the known ones stay");
        }
        match &error {
            None => self.metrics.succeeded(issuer, source, self.keys.len()),
            Some(_) => self.metrics.failed(issuer, source),
        }
        self.error = error;
        self.error.is_none()
    }
}

/// Identifies the content of a file without reading it.
type FileVersion = (Option<SystemTime>, u64, u64);

enum FileChange {
    Unchanged,
    Changed(FileVersion, Vec<u8>),
    Failed(io::Error),
}

/// Reads the file if it has changed. Follows links, because a mounted volume changes by moving the link to its content.
fn check_file(path: &Path, known: Option<FileVersion>) -> FileChange {
    let read = || {
        // Looked at before the read: a change during the read is then seen as one.
        let metadata = fs::metadata(path)?;
        let stamp = (metadata.modified().ok(), metadata.len(), metadata.ino());
        if known == Some(stamp) {
            return Ok(FileChange::Unchanged);
        }
        let mut document = Vec::new();
        File::open(path)?.take(fetch::MAX_BYTES as u64 + 1).read_to_end(&mut document)?;
        if document.len() > fetch::MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(FileChange::Changed(stamp, document))
    };
    read().unwrap_or_else(FileChange::Failed)
}

/// Up to a tenth less than `pause`, so that replicas that started together do not fetch together.
fn spread(pause: Duration) -> Duration {
    pause.mul_f64(1.0 - fastrand::f64() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_failure_to_failure_and_start_again_after_a_success() {
        let mut retry = Retry::new(RefreshSchedule::default());
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
