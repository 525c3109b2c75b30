//! The requests of a load, as bytes ready to send. Clusters are drawn by a generator with a fixed seed, so every run
//! sends the same requests in the same order.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;

use crate::queries::Prepared;
use crate::reports::{Change, Reporter, Reports};

/// The path of the clusters.
pub(crate) const CLUSTERS: &str = "/api/hyperfleet/v1/clusters";

/// The body of a new cluster.
pub(crate) fn cluster(name: &str, environment: &str, team: &str) -> String {
    format!(
        r#"{{"kind":"Cluster","name":"{name}","spec":{{"region":"eu-west-1","version":"4.17","nodes":3,"network":{{"pod_cidr":"10.128.0.0/14"}}}},"labels":{{"environment":"{environment}","team":"{team}"}}}}"#
    )
}

/// A request with a JSON body and additional headers, each of which ends with a line break.
pub(crate) fn request(target: &str, headers: &str, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{target} HTTP/1.1\r\nhost: localhost\r\n{headers}content-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A kind of request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    Create,
    Get,
    Patch,
    /// The first page of the list, the same for all connections.
    Page,
    /// Any page of the list.
    AnyPage,
    Report(Change),
}

impl Operation {
    pub(crate) const ALL: [Self; 7] = [
        Self::Create,
        Self::Get,
        Self::Patch,
        Self::Page,
        Self::AnyPage,
        Self::Report(Change::Content),
        Self::Report(Change::Time),
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::Patch => "patch",
            Self::Page => "page of 20",
            Self::AnyPage => "any page of 20",
            Self::Report(Change::Content) => "report changing",
            Self::Report(Change::Time) => "report time only",
            Self::Report(Change::Mixed) => "report mixed",
        }
    }
}

/// The servers that a load goes to.
#[derive(Debug)]
pub(crate) struct Servers {
    /// The servers over which the connections are spread evenly.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The processes whose memory is measured, if any.
    pub(crate) processes: Vec<u32>,
    pub(crate) workload: Workload,
}

#[derive(Debug)]
pub(crate) enum Workload {
    /// Creates.
    Creates,
    /// Gets of the clusters with these ids.
    Gets(Arc<[String]>),
    /// Patches of the clusters with these ids.
    Patches(Arc<[String]>),
    /// Pages of the list with these tokens; without a token the first page.
    Pages(Arc<[String]>),
    Reports(Change, Arc<Reports>),
    /// Any of these requests.
    Prepared(Arc<[Prepared]>),
    /// A GET of one path.
    Path(&'static str),
    /// The same with the headers of a caller.
    Signed(Signature, Box<Workload>),
}

/// The callers of a load.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    /// Headers, one set for each worker in turn; never empty.
    headers: Arc<[String]>,
    /// Whether 429 counts as a right answer.
    pub(crate) may_exceed_rate_limit: bool,
}

impl Signature {
    pub(crate) fn new(headers: impl IntoIterator<Item = String>) -> Self {
        Self { headers: headers.into_iter().collect(), may_exceed_rate_limit: false }
    }

    /// Writes the request with the headers of a worker in it.
    pub(crate) fn sign(&self, worker: usize, request: &[u8], signed: &mut Vec<u8>) {
        let line = request.windows(2).position(|two| two == b"\r\n").map_or(0, |end| end + 2);
        signed.clear();
        signed.extend_from_slice(&request[..line]);
        signed.extend_from_slice(self.headers[worker % self.headers.len()].as_bytes());
        signed.extend_from_slice(&request[line..]);
    }
}

/// Makes every created name and every patch different from all before it in this process.
static UNIQUE: AtomicU64 = AtomicU64::new(0);

impl Workload {
    /// The requests of one of `workers`.
    pub(crate) fn requests(&self, worker: usize, workers: usize) -> Requests {
        let (random, bytes) = (Rng::with_seed(worker as u64 + 1), Vec::with_capacity(1024));
        match self {
            Self::Reports(change, reports) => {
                Requests::Reports(Box::new(reports.reporter(*change, worker, workers)))
            }
            Self::Prepared(all) => Requests::Prepared { all: Arc::clone(all), random, chosen: 0 },
            Self::Signed(signature, inner) => {
                let inner = Box::new(inner.requests(worker, workers));
                Requests::Signed { signature: signature.clone(), worker, inner, bytes }
            }
            Self::Creates => Requests::Creates(bytes),
            Self::Gets(ids) => Requests::Gets { ids: Arc::clone(ids), random, bytes },
            Self::Patches(ids) => Requests::Patches { ids: Arc::clone(ids), random, bytes },
            Self::Pages(tokens) => Requests::Pages { tokens: Arc::clone(tokens), random, bytes },
            Self::Path(path) => {
                Requests::Path(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into())
            }
        }
    }
}

/// An endless series of requests.
#[derive(Debug)]
pub(crate) enum Requests {
    Creates(Vec<u8>),
    Gets { ids: Arc<[String]>, random: Rng, bytes: Vec<u8> },
    Patches { ids: Arc<[String]>, random: Rng, bytes: Vec<u8> },
    Pages { tokens: Arc<[String]>, random: Rng, bytes: Vec<u8> },
    Path(Vec<u8>),
    Reports(Box<Reporter>),
    Prepared { all: Arc<[Prepared]>, random: Rng, chosen: usize },
    Signed { signature: Signature, worker: usize, inner: Box<Requests>, bytes: Vec<u8> },
}

impl Requests {
    /// Whether this is a right answer to the last request.
    pub(crate) fn is_right_answer(&self, status: u16, body: &[u8]) -> bool {
        match self {
            Self::Creates(_) | Self::Reports(_) => status == 201,
            Self::Prepared { all, chosen, .. } => status == 200 && all[*chosen].is_right_body(body),
            Self::Signed { signature, inner, .. } => {
                (signature.may_exceed_rate_limit && status == 429) || inner.is_right_answer(status, body)
            }
            Self::Gets { .. } | Self::Patches { .. } | Self::Pages { .. } | Self::Path(_) => status == 200,
        }
    }

    /// The next request.
    pub(crate) fn next(&mut self) -> &[u8] {
        match self {
            Self::Creates(bytes) => {
                let name = format!("c-{}", UNIQUE.fetch_add(1, Ordering::Relaxed));
                let body = cluster(&name, "production", "fleet");
                *bytes = request(&format!("POST {CLUSTERS}"), "", "application/json", &body);
                bytes
            }
            Self::Gets { ids, random, bytes } => {
                let id = random.choice(ids.iter()).map_or("", String::as_str);
                write(bytes, format_args!("GET {CLUSTERS}/{id} HTTP/1.1\r\nhost: localhost\r\n\r\n"))
            }
            Self::Patches { ids, random, bytes } => {
                let id = random.choice(ids.iter()).map_or("", String::as_str);
                let body = format!(r#"{{"spec":{{"nodes":{}}}}}"#, UNIQUE.fetch_add(1, Ordering::Relaxed));
                *bytes =
                    request(&format!("PATCH {CLUSTERS}/{id}"), "", "application/merge-patch+json", &body);
                bytes
            }
            Self::Pages { tokens, random, bytes } => {
                let (name, token) =
                    random.choice(tokens.iter()).map_or(("", ""), |token| ("&pageToken=", token.as_str()));
                let head = "HTTP/1.1\r\nhost: localhost\r\n\r\n";
                write(bytes, format_args!("GET {CLUSTERS}?pageSize=20{name}{token} {head}"))
            }
            Self::Path(bytes) => bytes,
            Self::Reports(reporter) => reporter.next(),
            Self::Prepared { all, random, chosen } => {
                *chosen = random.usize(..all.len());
                &all[*chosen].request
            }
            Self::Signed { signature, worker, inner, bytes } => {
                signature.sign(*worker, inner.next(), bytes);
                bytes
            }
        }
    }
}

fn write<'a>(bytes: &'a mut Vec<u8>, text: std::fmt::Arguments<'_>) -> &'a [u8] {
    bytes.clear();
    bytes.write_fmt(text).expect("writing to memory cannot fail");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_gets_the_same_clusters() {
        let workload = Workload::Gets((0..100).map(|number| number.to_string()).collect());
        let (mut one, mut other) = (workload.requests(3, 8), workload.requests(3, 8));
        let first: Vec<Vec<u8>> = (0..20).map(|_| one.next().to_vec()).collect();
        assert_eq!(first, (0..20).map(|_| other.next().to_vec()).collect::<Vec<_>>());
        assert!(first.iter().any(|request| *request != first[0]));
    }

    #[test]
    fn only_the_expected_status_is_a_right_answer() {
        let mut signature = Signature::new(["who: ann\r\n".to_owned(), "who: bob\r\n".to_owned()]);
        signature.may_exceed_rate_limit = true;
        let signed = Workload::Signed(signature, Box::new(Workload::Creates));
        let mut requests = signed.requests(3, 4);
        let text = String::from_utf8(requests.next().to_vec()).unwrap();
        assert!(
            text.starts_with(&format!("POST {CLUSTERS} HTTP/1.1\r\nwho: bob\r\nhost: localhost\r\n")),
            "{text}"
        );
        assert!(requests.is_right_answer(201, b"") && requests.is_right_answer(429, b""));
        assert!(!requests.is_right_answer(200, b""));
        assert!(!Workload::Creates.requests(0, 1).is_right_answer(429, b""));
    }
}
