//! Which database the settings mean: a SQLite file, SQLite in memory, or a PostgreSQL server
//! given by a URL or by its parts. Nothing is opened here.

use std::path::PathBuf;

use hyperfleet_service::settings::{Faults, Settings, Source};
use hyperfleet_store::{Backend, SslMode};

/// The SQLite file that is used when nothing is configured.
const DEFAULT_FILE: &str = "./hyperfleet.db";

/// What `database.*` says. After a fault the backend is the default one.
pub(super) fn read(settings: &Settings, faults: &mut Faults) -> Backend {
    let url = settings.some_text("database.url");
    let host = settings.some_text("database.host");
    match (url, host) {
        (None, None) => Backend::Sqlite { path: Some(DEFAULT_FILE.into()) },
        (None, Some(host)) => Backend::Postgres {
            url: url_of_parts(settings, host),
            ssl_mode: ssl_mode(settings),
            root_cert_file: root_cert_file(settings),
        },
        (Some(url), None) => of_url(settings, url).unwrap_or_else(|rule| {
            faults.push(settings.fault("database.url", rule));
            Backend::Sqlite { path: Some(DEFAULT_FILE.into()) }
        }),
        (Some(_), Some(_)) => {
            let source = settings.source("database.url");
            let rule = format!("cannot stand together with database.url ({source})");
            faults.push(settings.fault("database.host", rule));
            Backend::Sqlite { path: Some(DEFAULT_FILE.into()) }
        }
    }
}

fn of_url(settings: &Settings, url: &str) -> Result<Backend, String> {
    const RULE: &str = "must be sqlite:<path>, sqlite::memory: or postgres://…";
    if let Some(path) = url.strip_prefix("sqlite:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return match path {
            "" => Err(RULE.to_owned()),
            ":memory:" => Ok(Backend::Sqlite { path: None }),
            path => Ok(Backend::Sqlite { path: Some(path.into()) }),
        };
    }
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(RULE.to_owned());
    }
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut target_mode = ssl_mode(settings);
    let mut root_cert_file = root_cert_file(settings);
    let mut kept = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", word)) => {
                target_mode = same_as_setting(settings, "database.ssl.mode", word)?.parse()?;
            }
            Some(("sslrootcert", file)) => {
                let file = percent_decode(file)?;
                same_as_setting(settings, "database.ssl.root_cert_file", &file)?;
                root_cert_file = Some(file.into());
            }
            _ => kept.push(pair),
        }
    }
    let url = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
    Ok(Backend::Postgres { url, ssl_mode: target_mode, root_cert_file })
}

/// What a URL says must not contradict what a key says.
fn same_as_setting<'w>(settings: &Settings, path: &str, word: &'w str) -> Result<&'w str, String> {
    let given = !matches!(settings.source(path), Source::Default | Source::Preset);
    if given && settings.text(path) != word {
        return Err(format!("its parameters contradict {path} ({})", settings.source(path)));
    }
    Ok(word)
}

fn ssl_mode(settings: &Settings) -> SslMode {
    settings.text("database.ssl.mode").parse().expect("the table allows only words that parse")
}

fn root_cert_file(settings: &Settings) -> Option<PathBuf> {
    settings.some_text("database.ssl.root_cert_file").map(PathBuf::from)
}

fn url_of_parts(settings: &Settings, host: &str) -> String {
    let mut url = "postgres://".to_owned();
    if let Some(user) = settings.some_text("database.username") {
        url += &percent_encode(user);
        if let Some(password) = settings.some_text("database.password") {
            url += ":";
            url += &percent_encode(password);
        }
        url += "@";
    }
    // A colon means an IPv6 address, which a URL holds in brackets and unencoded.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = if host.contains(':') { format!("[{host}]") } else { percent_encode(host) };
    let port: u16 = settings.integer("database.port");
    format!("{url}{host}:{port}/{}", percent_encode(settings.text("database.name")))
}

fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into());
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

fn percent_decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let code = digit().zip(digit()).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
            code.ok_or("has a broken %-escape")?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).map_err(|_| "has a %-escape that is not UTF-8".to_owned())
}
