//! Bearer tokens: a text, a file, or the output of a command. A token is read again when its file has changed, after its
//! TTL, and when the server refuses it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use http::HeaderValue;
use tokio::io::AsyncReadExt as _;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::Error;

/// The longest token.
const MAX_BYTES: u64 = 64 << 10;
/// Timeout of a command, which may ask a person.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// The shortest interval between checks of a file.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    fn bearer(&self) -> Result<HeaderValue, Error> {
        let wrong = || Error::Configuration("the token holds characters that no token has".to_owned());
        let fits = !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic());
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.0)).map_err(|_| wrong())?;
        value.set_sensitive(true);
        if fits { Ok(value) } else { Err(wrong()) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where the token comes from.
#[derive(Debug, Clone)]
pub enum Token {
    /// A fixed token.
    Fixed(Secret),
    /// A file, which may be renewed.
    File {
        /// The path.
        path: PathBuf,
        /// How long it is kept without being read again, even if it does not seem to have changed.
        ttl: Duration,
    },
    /// The output of a command. Its arguments are not shown, because they may hold secrets.
    Command {
        /// The program.
        program: PathBuf,
        /// Its arguments.
        arguments: Vec<Secret>,
        /// How long its token is cached.
        ttl: Duration,
    },
}

/// The current token.
#[derive(Debug)]
pub(crate) struct Tokens {
    source: Token,
    cached: Mutex<Option<CachedToken>>,
}

#[derive(Debug)]
struct CachedToken {
    token: Secret,
    read_at: Instant,
    checked_at: Instant,
    stamp: Option<FileStamp>,
}

/// Identifies the content of a file. A renewed secret in Kubernetes is another file of the same name.
#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Tokens {
    pub(crate) fn new(source: Token) -> Self {
        Self { source, cached: Mutex::new(None) }
    }

    /// The header to send.
    pub(crate) async fn header(&self) -> Result<HeaderValue, Error> {
        let mut cached = self.cached.lock().await;
        if let Some(cached) = cached.as_mut()
            && self.is_fresh(cached).await
        {
            return cached.token.bearer();
        }
        match (self.read().await, cached.as_ref()) {
            (Ok(fresh), _) => cached.insert(fresh).token.bearer(),
            // The old token may still be valid.
            (Err(error), Some(cached)) => {
                tracing::warn!(%error, "the token cannot be renewed, the old one is used");
                cached.token.bearer()
            }
            (Err(error), None) => Err(error),
        }
    }

    /// A header other than the refused one; `None` if there is none.
    pub(crate) async fn instead_of(&self, refused: &HeaderValue) -> Option<HeaderValue> {
        if matches!(self.source, Token::Fixed(_)) {
            return None;
        }
        let mut cached = self.cached.lock().await;
        let differs = |cached: &CachedToken| cached.token.bearer().ok().filter(|header| header != refused);
        // A concurrent call may have renewed it.
        if let Some(header) = cached.as_ref().and_then(differs) {
            return Some(header);
        }
        let fresh = self.read().await.ok()?;
        differs(cached.insert(fresh))
    }

    async fn is_fresh(&self, cached: &mut CachedToken) -> bool {
        let ttl = match &self.source {
            Token::Fixed(_) => return true,
            Token::File { ttl, .. } | Token::Command { ttl, .. } => *ttl,
        };
        if cached.read_at.elapsed() >= ttl {
            return false;
        }
        let Token::File { path, .. } = &self.source else { return true };
        if cached.checked_at.elapsed() < CHECK_EVERY {
            return true;
        }
        cached.checked_at = Instant::now();
        cached.stamp == tokio::fs::metadata(path).await.ok().map(|found| FileStamp::at(&found))
    }

    async fn read(&self) -> Result<CachedToken, Error> {
        let (text, stamp) = match &self.source {
            Token::Fixed(secret) => (secret.0.clone(), None),
            Token::File { path, .. } => {
                let cannot = |why: String| {
                    Error::Configuration(format!("cannot read the token file {}: {why}", path.display()))
                };
                let file = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&file)).await;
                let (text, stamp) = read
                    .map_err(|error| cannot(error.to_string()))?
                    .map_err(|error| cannot(error.to_string()))?;
                (text, Some(stamp))
            }
            Token::Command { program, arguments, .. } => (run(program, arguments).await?, None),
        };
        let now = Instant::now();
        Ok(CachedToken { token: Secret(text.trim().to_owned()), read_at: now, checked_at: now, stamp })
    }
}

impl FileStamp {
    fn at(found: &fs::Metadata) -> Self {
        Self { inode: found.ino(), size: found.size(), modified: (found.mtime(), found.mtime_nsec()) }
    }
}

fn read_file(path: &Path) -> io::Result<(String, FileStamp)> {
    let file = File::open(path)?;
    let stamp = FileStamp::at(&file.metadata()?);
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("it is too large to be a token"));
    }
    Ok((text, stamp))
}

/// Runs a command, which may use standard error and a terminal.
async fn run(program: &Path, arguments: &[Secret]) -> Result<String, Error> {
    let failed =
        |why: String| Error::Configuration(format!("the token command {} failed: {why}", program.display()));
    let io_failed = |error: io::Error| failed(error.to_string());
    let mut child = tokio::process::Command::new(program)
        .args(arguments.iter().map(|argument| &argument.0))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(io_failed)?;
    let printed = child.stdout.take().ok_or_else(|| failed("it prints nowhere".to_owned()))?;
    let talk = async {
        let mut text = String::new();
        printed.take(MAX_BYTES + 1).read_to_string(&mut text).await?;
        if text.len() as u64 > MAX_BYTES {
            return Err(io::Error::other("it printed too much"));
        }
        Ok((text, child.wait().await?))
    };
    let late = |_| failed(format!("it took longer than {COMMAND_LIMIT:?}"));
    let (text, status) = tokio::time::timeout(COMMAND_LIMIT, talk).await.map_err(late)?.map_err(io_failed)?;
    if status.success() { Ok(text) } else { Err(failed(status.to_string())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    async fn sent(tokens: &Tokens) -> String {
        tokens.header().await.unwrap().to_str().unwrap().to_owned()
    }

    fn command(script: &str, ttl: Duration) -> Tokens {
        let arguments = vec![Secret::new("-c"), Secret::new(script)];
        Tokens::new(Token::Command { program: "/bin/sh".into(), arguments, ttl })
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let settings = crate::Settings {
            token: Some(Token::Command {
                program: "/bin/echo".into(),
                arguments: vec![Secret::new("hush-1")],
                ttl: HOUR,
            }),
            ..crate::Settings::default()
        };
        let fixed = Token::Fixed(Secret::new("hush-2"));
        let header = Secret::new("hush-3").bearer().unwrap();
        let shown = format!("{settings:?} {fixed:?} {header:?}");
        assert!(!shown.contains("hush"), "{shown}");
        let error = Secret::new("hush 4\n").bearer().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hush"));
    }

    #[tokio::test]
    async fn a_renewed_token_file_is_read_after_its_ttl_or_a_refusal() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, "one\n").unwrap();
        let tokens = Tokens::new(Token::File { path: path.clone(), ttl: HOUR });
        assert_eq!(sent(&tokens).await, "Bearer one");

        // The file is not read for every request.
        fs::write(&path, "two\n").unwrap();
        let refused = tokens.header().await.unwrap();
        assert_eq!(refused, "Bearer one");
        assert_eq!(tokens.instead_of(&refused).await.unwrap(), "Bearer two");
        assert_eq!(tokens.instead_of(&HeaderValue::from_static("Bearer two")).await, None);

        fs::write(&path, "three\n").unwrap();
        let long_ago = Instant::now().checked_sub(CHECK_EVERY).unwrap();
        tokens.cached.lock().await.as_mut().unwrap().checked_at = long_ago;
        assert_eq!(sent(&tokens).await, "Bearer three");

        // A file that is missing while it is replaced costs nothing.
        fs::remove_file(&path).unwrap();
        tokens.cached.lock().await.as_mut().unwrap().checked_at = long_ago;
        assert_eq!(sent(&tokens).await, "Bearer three");
        let error = Tokens::new(Token::File { path, ttl: HOUR }).header().await.unwrap_err();
        assert!(matches!(error, Error::Configuration(_)), "{error}");
    }

    #[tokio::test]
    async fn a_token_command_runs_once_within_its_ttl() {
        let directory = tempfile::tempdir().unwrap();
        let counter = directory.path().join("runs");
        let script = format!("echo x >> '{0}'; wc -l < '{0}'", counter.display());
        let cached = command(&script, HOUR);
        assert_eq!(
            (sent(&cached).await, sent(&cached).await),
            ("Bearer 1".to_owned(), "Bearer 1".to_owned())
        );
        let passing = command(&script, Duration::ZERO);
        assert_eq!(
            (sent(&passing).await, sent(&passing).await),
            ("Bearer 2".to_owned(), "Bearer 3".to_owned())
        );
    }

    #[tokio::test]
    async fn a_token_command_that_fails_or_prints_nothing_or_too_much_is_an_error() {
        for script in ["echo hush; exit 3", "true", "cat /dev/zero", "echo two words"] {
            let error = command(script, HOUR).header().await.unwrap_err();
            assert!(matches!(error, Error::Configuration(_)), "{script}: {error}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }
}
