//! The requests that are measured, as bytes ready to send. Which cluster a request goes to is drawn from a generator
//! with a fixed seed, so that every run asks for the same ones in the same order.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    Create,
    Get,
    Patch,
    List,
}

impl Operation {
    pub(crate) const ALL: [Self; 4] = [Self::Create, Self::Get, Self::Patch, Self::List];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::Patch => "patch",
            Self::List => "list 20",
        }
    }
}

/// One operation on a set of clusters, or a plain GET of one path.
#[derive(Debug)]
pub(crate) enum Workload {
    Clusters { operation: Operation, ids: Arc<[String]> },
    Path(&'static str),
}

/// Makes every created name, and every patch, different from all before it in this process.
static UNIQUE: AtomicU64 = AtomicU64::new(0);

impl Workload {
    /// The requests of one worker.
    pub(crate) fn requests(&self, worker: usize) -> Requests {
        let (operation, ids, path) = match self {
            Self::Clusters { operation, ids } => (*operation, Arc::clone(ids), CLUSTERS),
            Self::Path(path) => (Operation::Get, Arc::default(), *path),
        };
        Requests { operation, ids, path, random: Random(worker as u64 + 1), bytes: Vec::with_capacity(1024) }
    }
}

/// An endless row of requests.
#[derive(Debug)]
pub(crate) struct Requests {
    operation: Operation,
    ids: Arc<[String]>,
    path: &'static str,
    random: Random,
    bytes: Vec<u8>,
}

impl Requests {
    /// The status that a right answer has.
    pub(crate) fn expected_status(&self) -> u16 {
        if self.operation == Operation::Create { 201 } else { 200 }
    }

    /// The next request.
    pub(crate) fn next(&mut self) -> &[u8] {
        let Self { operation, ids, path, random, bytes } = self;
        bytes.clear();
        let written = match operation {
            Operation::Get => match random.choose(ids) {
                Some(id) => write!(bytes, "GET {path}/{id} HTTP/1.1\r\nhost: bench\r\n\r\n"),
                None => write!(bytes, "GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n"),
            },
            Operation::List => write!(bytes, "GET {path}?pageSize=20 HTTP/1.1\r\nhost: bench\r\n\r\n"),
            Operation::Create => {
                let body = cluster(&format!("c-{}", UNIQUE.fetch_add(1, Ordering::Relaxed)));
                write_body(bytes, format_args!("POST {path}"), "application/json", &body)
            }
            Operation::Patch => {
                let id = random.choose(ids).map_or("", String::as_str);
                let body = format!(r#"{{"spec":{{"nodes":{}}}}}"#, UNIQUE.fetch_add(1, Ordering::Relaxed));
                write_body(bytes, format_args!("PATCH {path}/{id}"), "application/merge-patch+json", &body)
            }
        };
        written.expect("writing to memory cannot fail");
        bytes
    }
}

fn write_body(
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

/// SplitMix64: small, and the same on every machine.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn choose<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let length = from.len() as u64;
        (length > 0).then(|| &from[(self.next() % length) as usize])
    }
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
        let workload = Workload::Clusters { operation: Operation::Get, ids };
        let (mut one, mut other) = (workload.requests(3), workload.requests(3));
        let first: Vec<String> = (0..20).map(|_| text(&mut one)).collect();
        assert_eq!(first, (0..20).map(|_| text(&mut other)).collect::<Vec<_>>());
        assert!(first.iter().any(|request| *request != first[0]));
    }

    #[test]
    fn a_body_has_its_length_and_is_json() {
        let workload = Workload::Clusters { operation: Operation::Create, ids: Arc::default() };
        let request = text(&mut workload.requests(0));
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["spec"]["nodes"], 3);
    }
}
