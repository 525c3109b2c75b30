//! What proves who we are: a text, a file that somebody renews, or a command that prints it. A token is read again when
//! its file has changed, when it has been kept for long enough, and when the server does not take it any more.

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
/// How long a command may take: it may ask a person.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// How often a file is looked at, at the most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes it.
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
    /// This one.
    Fixed(Secret),
    /// A file, which somebody renews.
    File {
        /// Which.
        path: PathBuf,
        /// How long it is kept without being read again, even if it does not seem to have changed.
        ttl: Duration,
    },
    /// What a command prints. Its arguments are not shown: they may hold secrets.
    Command {
        /// The program.
        program: PathBuf,
        /// Its arguments.
        arguments: Vec<Secret>,
        /// How long its token is kept.
        ttl: Duration,
    },
}

/// The token at hand.
#[derive(Debug)]
pub(crate) struct Tokens {
    source: Token,
    kept: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    token: Secret,
    read_at: Instant,
    looked_at: Instant,
    look: Option<Look>,
}

/// What tells whether a file has changed. A renewed secret in Kubernetes is another file by the same name.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Tokens {
    pub(crate) fn new(source: Token) -> Self {
        Self { source, kept: Mutex::new(None) }
    }

    /// The header to send.
    pub(crate) async fn header(&self) -> Result<HeaderValue, Error> {
        let mut kept = self.kept.lock().await;
        if let Some(known) = kept.as_mut()
            && self.is_fresh(known).await
        {
            return known.token.bearer();
        }
        match (self.read().await, kept.as_ref()) {
            (Ok(fresh), _) => kept.insert(fresh).token.bearer(),
            // The old one may still do, and if it does not, the server says so.
            (Err(error), Some(known)) => {
                tracing::warn!(%error, "the token cannot be renewed, the old one is used");
                known.token.bearer()
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Another header than this one, which the server has refused; `None` if there is none.
    pub(crate) async fn instead_of(&self, refused: &HeaderValue) -> Option<HeaderValue> {
        if matches!(self.source, Token::Fixed(_)) {
            return None;
        }
        let mut kept = self.kept.lock().await;
        let differs = |known: &Kept| known.token.bearer().ok().filter(|header| header != refused);
        // Somebody else may have renewed it meanwhile.
        if let Some(header) = kept.as_ref().and_then(differs) {
            return Some(header);
        }
        let fresh = self.read().await.ok()?;
        differs(kept.insert(fresh))
    }

    async fn is_fresh(&self, known: &mut Kept) -> bool {
        let ttl = match &self.source {
            Token::Fixed(_) => return true,
            Token::File { ttl, .. } | Token::Command { ttl, .. } => *ttl,
        };
        if known.read_at.elapsed() >= ttl {
            return false;
        }
        let Token::File { path, .. } = &self.source else { return true };
        if known.looked_at.elapsed() < LOOK_EVERY {
            return true;
        }
        known.looked_at = Instant::now();
        known.look == tokio::fs::metadata(path).await.ok().map(|found| Look::at(&found))
    }

    async fn read(&self) -> Result<Kept, Error> {
        let (text, look) = match &self.source {
            Token::Fixed(secret) => (secret.0.clone(), None),
            Token::File { path, .. } => {
                let cannot = |why: String| {
                    Error::Configuration(format!("cannot read the token file {}: {why}", path.display()))
                };
                let file = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&file)).await;
                let (text, look) = read
                    .map_err(|error| cannot(error.to_string()))?
                    .map_err(|error| cannot(error.to_string()))?;
                (text, Some(look))
            }
            Token::Command { program, arguments, .. } => (run(program, arguments).await?, None),
        };
        let now = Instant::now();
        Ok(Kept { token: Secret(text.trim().to_owned()), read_at: now, looked_at: now, look })
    }
}

impl Look {
    fn at(found: &fs::Metadata) -> Self {
        Self { inode: found.ino(), size: found.size(), modified: (found.mtime(), found.mtime_nsec()) }
    }
}

fn read_file(path: &Path) -> io::Result<(String, Look)> {
    let file = File::open(path)?;
    let look = Look::at(&file.metadata()?);
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("it is too large to be a token"));
    }
    Ok((text, look))
}

/// What a command prints. It talks to people by itself, on standard error.
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
    fn nothing_shows_a_secret() {
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
    async fn a_renewed_file_is_read_again_when_it_is_old_enough_or_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, "one\n").unwrap();
        let tokens = Tokens::new(Token::File { path: path.clone(), ttl: HOUR });
        assert_eq!(sent(&tokens).await, "Bearer one");

        // Nobody looks at the file for every request.
        fs::write(&path, "two\n").unwrap();
        let refused = tokens.header().await.unwrap();
        assert_eq!(refused, "Bearer one");
        assert_eq!(tokens.instead_of(&refused).await.unwrap(), "Bearer two");
        assert_eq!(tokens.instead_of(&HeaderValue::from_static("Bearer two")).await, None);

        fs::write(&path, "three\n").unwrap();
        let long_ago = Instant::now().checked_sub(LOOK_EVERY).unwrap();
        tokens.kept.lock().await.as_mut().unwrap().looked_at = long_ago;
        assert_eq!(sent(&tokens).await, "Bearer three");

        // A file that is gone for a moment costs nothing.
        fs::remove_file(&path).unwrap();
        tokens.kept.lock().await.as_mut().unwrap().looked_at = long_ago;
        assert_eq!(sent(&tokens).await, "Bearer three");
        let error = Tokens::new(Token::File { path, ttl: HOUR }).header().await.unwrap_err();
        assert!(matches!(error, Error::Configuration(_)), "{error}");
    }

    #[tokio::test]
    async fn a_command_is_run_once_for_as_long_as_its_token_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let counter = directory.path().join("runs");
        let script = format!("echo x >> '{0}'; wc -l < '{0}'", counter.display());
        let kept = command(&script, HOUR);
        assert_eq!((sent(&kept).await, sent(&kept).await), ("Bearer 1".to_owned(), "Bearer 1".to_owned()));
        let passing = command(&script, Duration::ZERO);
        assert_eq!(
            (sent(&passing).await, sent(&passing).await),
            ("Bearer 2".to_owned(), "Bearer 3".to_owned())
        );
    }

    #[tokio::test]
    async fn a_command_that_fails_prints_nothing_or_too_much_is_an_error() {
        for script in ["echo hush; exit 3", "true", "cat /dev/zero", "echo two words"] {
            let error = command(script, HOUR).header().await.unwrap_err();
            assert!(matches!(error, Error::Configuration(_)), "{script}: {error}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }
}
