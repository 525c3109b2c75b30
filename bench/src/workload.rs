//! The requests that are measured, as bytes ready to send. Which cluster a request goes to is drawn from a generator
//! with a fixed seed, so that every run asks for the same ones in the same order.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lives::{LifeRequests, Lives};
use crate::questions::Asked;
use crate::random::Random;
use crate::reports::{Moves, Reporter, Reports};

/// Where the clusters live.
pub(crate) const CLUSTERS: &str = "/api/hyperfleet/v1/clusters";

/// The body of a new cluster.
pub(crate) fn cluster(name: &str) -> String {
    format!(
        r#"{{"kind":"Cluster","name":"{name}","spec":{{"region":"eu-west-1","version":"4.17","nodes":3,"network":{{"pod_cidr":"10.128.0.0/14"}}}},"labels":{{"environment":"production","team":"fleet"}}}}"#
    )
}

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    Cluster(Verb),
    Report(Moves),
}

/// What is done with clusters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verb {
    Create,
    Get,
    Patch,
    /// The first page, the same for everyone.
    List,
    /// Any page.
    AnyPage,
}

impl Verb {
    pub(crate) const ALL: [Self; 5] = [Self::Create, Self::Get, Self::Patch, Self::List, Self::AnyPage];
}

impl Operation {
    pub(crate) fn on_clusters() -> [Self; 5] {
        Verb::ALL.map(Self::Cluster)
    }

    pub(crate) fn reports() -> [Self; 2] {
        Moves::ALL.map(Self::Report)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cluster(Verb::Create) => "create",
            Self::Cluster(Verb::Get) => "get",
            Self::Cluster(Verb::Patch) => "patch",
            Self::Cluster(Verb::List) => "page of 20",
            Self::Cluster(Verb::AnyPage) => "any page of 20",
            Self::Report(Moves::Content) => "report changing",
            Self::Report(Moves::Time) => "report time only",
        }
    }
}

/// Where a load goes.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// The process whose memory is watched.
    pub(crate) process: Option<u32>,
    pub(crate) workload: Workload,
}

/// One operation on a set of clusters, a question, or a plain GET of one path.
#[derive(Debug)]
pub(crate) enum Workload {
    /// On clusters with these ids, or on pages with these tokens.
    Clusters {
        verb: Verb,
        ids: Arc<[String]>,
    },
    Reports {
        moves: Moves,
        reports: Arc<Reports>,
    },
    /// Any of these, none of which is more than another.
    Asked(Arc<[Asked]>),
    /// The life of a fleet, dealt out to as many workers.
    Lives(Arc<Lives>),
    Path(&'static str),
    /// The same by a caller who says who it is.
    Signed(Signature, Box<Workload>),
}

/// Who sends the requests.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    /// Headers, one set for each worker in turn.
    headers: Arc<[String]>,
    /// Whether it counts as an answer that there were too many requests.
    may_be_refused: bool,
}

impl Signature {
    /// Nobody in particular.
    pub(crate) fn none() -> Self {
        Self::of([String::new()])
    }

    /// Callers with these headers, of which there must be some.
    pub(crate) fn of(headers: impl IntoIterator<Item = String>) -> Self {
        Self { headers: headers.into_iter().collect(), may_be_refused: false }
    }

    /// Callers who are right to be told that they ask too much.
    pub(crate) fn or_refused(self) -> Self {
        Self { may_be_refused: true, ..self }
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

/// Makes every created name, and every patch, different from all before it in this process.
static UNIQUE: AtomicU64 = AtomicU64::new(0);

impl Workload {
    /// The requests of one of `workers`.
    pub(crate) fn requests(&self, worker: usize, workers: usize) -> Requests {
        let (verb, ids, path) = match self {
            Self::Clusters { verb, ids } => (*verb, Arc::clone(ids), CLUSTERS),
            Self::Path(path) => (Verb::Get, Arc::default(), *path),
            Self::Reports { moves, reports } => {
                return Requests::Reports(reports.reporter(*moves, worker, workers));
            }
            Self::Lives(lives) => return Requests::Lives(lives.requests(worker, workers)),
            Self::Signed(signature, what) => {
                let requests = Box::new(what.requests(worker, workers));
                let signature = signature.clone();
                return Requests::Signed(SignedRequests { signature, worker, requests, bytes: Vec::new() });
            }
            Self::Asked(asked) => {
                let random = Random::seeded(worker as u64 + 1);
                return Requests::Asked(AskedRequests { asked: Arc::clone(asked), random, chosen: 0 });
            }
        };
        let random = Random::seeded(worker as u64 + 1);
        Requests::Clusters(ClusterRequests { verb, ids, path, random, bytes: Vec::with_capacity(1024) })
    }
}

/// An endless row of requests.
#[derive(Debug)]
pub(crate) enum Requests {
    Clusters(ClusterRequests),
    Reports(Reporter),
    Asked(AskedRequests),
    Lives(LifeRequests),
    Signed(SignedRequests),
}

impl Requests {
    /// Whether this is a right answer to the last request.
    pub(crate) fn is_answered_by(&mut self, status: u16, body: &[u8]) -> bool {
        match self {
            Self::Lives(requests) => requests.take(status, body),
            Self::Clusters(ClusterRequests { verb: Verb::Create, .. }) | Self::Reports(_) => status == 201,
            Self::Clusters(_) => status == 200,
            Self::Asked(AskedRequests { asked, chosen, .. }) => {
                status == 200 && asked[*chosen].is_answered_by(body)
            }
            Self::Signed(SignedRequests { signature, requests, .. }) => {
                (signature.may_be_refused && status == 429) || requests.is_answered_by(status, body)
            }
        }
    }

    /// The next request.
    pub(crate) fn next(&mut self) -> &[u8] {
        match self {
            Self::Clusters(requests) => requests.next(),
            Self::Reports(reporter) => reporter.next(),
            Self::Lives(requests) => requests.next(),
            Self::Asked(AskedRequests { asked, random, chosen }) => {
                *chosen = random.below(asked.len());
                &asked[*chosen].request
            }
            Self::Signed(SignedRequests { signature, worker, requests, bytes }) => {
                signature.sign(*worker, requests.next(), bytes);
                bytes
            }
        }
    }
}

/// Requests that are one question.
#[derive(Debug)]
pub(crate) struct AskedRequests {
    asked: Arc<[Asked]>,
    random: Random,
    chosen: usize,
}

/// Requests of someone.
#[derive(Debug)]
pub(crate) struct SignedRequests {
    signature: Signature,
    worker: usize,
    requests: Box<Requests>,
    bytes: Vec<u8>,
}

/// Requests for clusters, or for one path where there are no ids.
#[derive(Debug)]
pub(crate) struct ClusterRequests {
    verb: Verb,
    ids: Arc<[String]>,
    path: &'static str,
    random: Random,
    bytes: Vec<u8>,
}

impl ClusterRequests {
    fn next(&mut self) -> &[u8] {
        let Self { verb, ids, path, random, bytes } = self;
        bytes.clear();
        let written = match verb {
            Verb::Get => match random.choose(ids) {
                Some(id) => write!(bytes, "GET {path}/{id} HTTP/1.1\r\nhost: bench\r\n\r\n"),
                None => write!(bytes, "GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n"),
            },
            Verb::List => write!(bytes, "GET {path}?pageSize=20 HTTP/1.1\r\nhost: bench\r\n\r\n"),
            Verb::AnyPage => {
                let token = random.choose(ids).map_or("", String::as_str);
                let head = "HTTP/1.1\r\nhost: bench\r\n\r\n";
                write!(bytes, "GET {path}?pageSize=20&pageToken={token} {head}")
            }
            Verb::Create => {
                let body = cluster(&format!("c-{}", UNIQUE.fetch_add(1, Ordering::Relaxed)));
                write_body(bytes, format_args!("POST {path}"), "application/json", &body)
            }
            Verb::Patch => {
                let id = random.choose(ids).map_or("", String::as_str);
                let body = format!(r#"{{"spec":{{"nodes":{}}}}}"#, UNIQUE.fetch_add(1, Ordering::Relaxed));
                write_body(bytes, format_args!("PATCH {path}/{id}"), "application/merge-patch+json", &body)
            }
        };
        written.expect("writing to memory cannot fail");
        bytes
    }
}

/// Writes a request with a body.
pub(crate) fn write_body(
    bytes: &mut Vec<u8>,
    target: std::fmt::Arguments<'_>,
    kind: &str,
    body: &str,
) -> std::io::Result<()> {
    let length = body.len();
    write!(
        bytes,
        "{target} HTTP/1.1\r\nhost: bench\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(requests: &mut Requests) -> String {
        String::from_utf8(requests.next().to_vec()).unwrap()
    }

    #[test]
    fn every_run_asks_for_the_same_clusters() {
        let ids: Arc<[String]> = (0..100).map(|number| number.to_string()).collect();
        let workload = Workload::Clusters { verb: Verb::Get, ids };
        let (mut one, mut other) = (workload.requests(3, 8), workload.requests(3, 8));
        let first: Vec<String> = (0..20).map(|_| text(&mut one)).collect();
        assert_eq!(first, (0..20).map(|_| text(&mut other)).collect::<Vec<_>>());
        assert!(first.iter().any(|request| *request != first[0]));
    }

    #[test]
    fn a_body_has_its_length_and_is_json() {
        let workload = Workload::Clusters { verb: Verb::Create, ids: Arc::default() };
        let request = text(&mut workload.requests(0, 1));
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["spec"]["nodes"], 3);
    }

    #[test]
    fn a_signed_request_is_the_same_with_the_headers_of_its_worker() {
        let plain = Workload::Clusters { verb: Verb::Create, ids: Arc::default() };
        let signature = Signature::of(["who: ann\r\n".to_owned(), "who: bob\r\n".to_owned()]);
        let signed = Workload::Signed(signature.or_refused(), Box::new(plain));
        let mut requests = signed.requests(3, 4);
        let request = text(&mut requests);
        let (line, rest) = request.split_once("\r\n").unwrap();
        assert_eq!(line, format!("POST {CLUSTERS} HTTP/1.1"));
        assert!(rest.starts_with("who: bob\r\nhost: bench\r\n"), "{request}");
        assert!(requests.is_answered_by(201, b"") && requests.is_answered_by(429, b""));
        assert!(!requests.is_answered_by(200, b""));
    }
}
