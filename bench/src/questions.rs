//! What is asked of lists all day: requests as bytes ready to send, each with what its answer begins with. A page
//! tells its size and its total before its items, so that every answer can be checked at no cost.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::workload::CLUSTERS;

/// How many there are to a page.
pub(crate) const PAGE: usize = 20;
/// The page that is compared with the first.
pub(crate) const DEEP: usize = 1_000;
/// How many have the label of few, and how many are not done: the same in every fleet.
pub(crate) const FEW: usize = 10;

/// Something that is asked of a fleet.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Question {
    /// The yardstick: one cluster by its id.
    Get,
    Everything,
    Deep,
    ManyLabelled,
    FewLabelled,
    Done,
    NotDone,
    NothingDue,
    Name,
}

impl Question {
    pub(crate) const ALL: [Self; 9] = [
        Self::Get,
        Self::Everything,
        Self::Deep,
        Self::ManyLabelled,
        Self::FewLabelled,
        Self::Done,
        Self::NotDone,
        Self::NothingDue,
        Self::Name,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get by id",
            Self::Everything => "list everything",
            Self::Deep => "list page 1000",
            Self::ManyLabelled => "list label of many",
            Self::FewLabelled => "list label of few",
            Self::Done => "list done",
            Self::NotDone => "list not done",
            Self::NothingDue => "list nothing due",
            Self::Name => "list name",
        }
    }

    /// Whether its answer in a larger fleet shall cost about the same.
    pub(crate) fn is_daily(self) -> bool {
        !matches!(self, Self::Get | Self::Deep)
    }

    /// The search of a list, and what it finds in a fleet of `clusters`.
    fn search(self, clusters: usize) -> (&'static str, usize) {
        match self {
            Self::ManyLabelled => ("labels.environment='production'", clusters / 4),
            Self::FewLabelled => ("labels.team='few'", FEW),
            Self::Done => ("status.conditions.Reconciled='True'", clusters - FEW),
            Self::NotDone => ("status.conditions.Reconciled='False'", FEW),
            Self::NothingDue => (
                "status.conditions.Reconciled='True' and \
                 status.conditions.Reconciled.last_updated_time<'2020-01-01T00:00:00Z'",
                0,
            ),
            Self::Get | Self::Everything | Self::Deep | Self::Name => ("", clusters),
        }
    }

    /// The requests, of which each is as good as any other.
    pub(crate) fn asked(self, fleet: &Members) -> Vec<Asked> {
        let clusters = fleet.ids.len();
        match self {
            Self::Get => fleet.ids.iter().map(|id| Asked::get(id)).collect(),
            Self::Name => {
                let named = |number: usize| Asked::list(&format!("name='{}'", name(number)), 1, 1, "");
                (0..clusters).step_by(clusters.div_ceil(1_000)).map(named).collect()
            }
            Self::Deep => match &fleet.deep {
                Some(token) => {
                    vec![Asked::list("", DEEP, clusters, &format!("&pageToken={token}"))]
                }
                None => Vec::new(),
            },
            // Whoever polls for what is due wants to know of what is being deleted too.
            Self::NothingDue => {
                let (search, found) = self.search(clusters);
                vec![Asked::list(search, 1, found, "&showDeleted=true")]
            }
            _ => {
                let (search, found) = self.search(clusters);
                vec![Asked::list(search, 1, found, "")]
            }
        }
    }
}

/// Who is in a fleet.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) ids: Vec<String>,
    /// What continues a list at its page [`DEEP`], where it has one.
    pub(crate) deep: Option<String>,
}

/// The name of the cluster with this number.
pub(crate) fn name(number: usize) -> String {
    format!("cluster-{number}")
}

/// The body of the new cluster with this number in a fleet of `clusters`.
pub(crate) fn cluster(number: usize, clusters: usize) -> String {
    let environment = if number.is_multiple_of(4) { "production" } else { "staging" };
    let team = if number % (clusters / FEW) == 1 { "few" } else { "fleet" };
    format!(
        r#"{{"kind":"Cluster","name":"{}","spec":{{"region":"eu-west-1","version":"4.17","nodes":3,"network":{{"pod_cidr":"10.128.0.0/14"}}}},"labels":{{"environment":"{environment}","team":"{team}"}}}}"#,
        name(number)
    )
}

/// Whether no adapter has reported on the cluster with this number.
pub(crate) fn is_silent(number: usize, clusters: usize) -> bool {
    number % (clusters / FEW) == 2
}

/// A request, and what the body of its answer begins with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) request: Vec<u8>,
    pub(crate) begins: Vec<u8>,
}

impl Asked {
    fn new(path: &str, begins: String) -> Self {
        let request = format!("GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n");
        Self { request: request.into_bytes(), begins: begins.into_bytes() }
    }

    fn get(id: &str) -> Self {
        Self::new(&format!("{CLUSTERS}/{id}"), format!(r#"{{"kind":"Cluster","id":"{id}","#))
    }

    /// Page `page` of what a search finds `total` of.
    pub(crate) fn list(search: &str, page: usize, total: usize, more: &str) -> Self {
        let size = total.saturating_sub((page - 1) * PAGE).min(PAGE);
        let search = match search.is_empty() {
            true => String::new(),
            false => format!("&search={}", in_a_url(search)),
        };
        Self::new(
            &format!("{CLUSTERS}?pageSize={PAGE}{search}{more}"),
            format!(r#"{{"kind":"ClusterList","page":{page},"size":{size},"total":{total},"items":["#),
        )
    }

    /// Whether this is the body of a right answer.
    pub(crate) fn is_answered_by(&self, body: &[u8]) -> bool {
        body.starts_with(&self.begins)
    }
}

/// That a page holds as many as it says, each a cluster that the question means.
pub(crate) fn check(question: Question, body: &[u8]) -> Result<()> {
    let body: Value = serde_json::from_slice(body)?;
    let Some(items) = body["items"].as_array() else {
        ensure!(question == Question::Get, "no items: {body}");
        return Ok(());
    };
    ensure!(body["size"] == items.len(), "{} items on a page of {}", items.len(), body["size"]);
    for item in items {
        let status = reconciled(item)?;
        let fits = match question {
            Question::ManyLabelled => item["labels"]["environment"] == "production",
            Question::FewLabelled => item["labels"]["team"] == "few",
            Question::Done => status == "True",
            Question::NotDone => status == "False",
            Question::NothingDue => false,
            Question::Get | Question::Everything | Question::Deep | Question::Name => true,
        };
        ensure!(fits, "{} found {item}", question.name());
    }
    Ok(())
}

fn reconciled(item: &Value) -> Result<&str> {
    let conditions = item["status"]["conditions"].as_array().context("no conditions")?;
    let reconciled = conditions.iter().find(|condition| condition["type"] == "Reconciled");
    reconciled.and_then(|condition| condition["status"].as_str()).context("no Reconciled")
}

/// A text as it stands in a query.
fn in_a_url(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(clusters: usize) -> Members {
        Members { ids: (0..clusters).map(|number| number.to_string()).collect(), deep: None }
    }

    fn labelled(clusters: usize, label: &str) -> usize {
        (0..clusters).filter(|number| cluster(*number, clusters).contains(label)).count()
    }

    #[test]
    fn a_fleet_holds_what_its_questions_are_answered_with() {
        for clusters in [10_000, 100_000, 1_000_000] {
            assert_eq!(labelled(clusters, r#""environment":"production""#), clusters / 4);
            assert_eq!(labelled(clusters, r#""team":"few""#), FEW);
            assert_eq!((0..clusters).filter(|number| is_silent(*number, clusters)).count(), FEW);
        }
    }

    #[test]
    fn an_answer_with_another_total_is_wrong() {
        let asked = Question::FewLabelled.asked(&members(10_000));
        let [asked] = asked.as_slice() else { panic!("{asked:?}") };
        assert!(
            asked
                .request
                .starts_with(b"GET /api/hyperfleet/v1/clusters?pageSize=20&search=labels.team%3D%27few%27 ")
        );
        assert!(asked.is_answered_by(br#"{"kind":"ClusterList","page":1,"size":10,"total":10,"items":[{}"#));
        assert!(
            !asked.is_answered_by(br#"{"kind":"ClusterList","page":1,"size":10,"total":100,"items":[{}"#)
        );
    }

    #[test]
    fn a_page_that_lies_about_its_size_or_holds_a_stranger_is_found_out() {
        let item = |status: &str| {
            format!(r#"{{"status":{{"conditions":[{{"type":"Reconciled","status":"{status}"}}]}}}}"#)
        };
        let page = |size: usize, status: &str| format!(r#"{{"size":{size},"items":[{}]}}"#, item(status));
        assert!(check(Question::Done, page(1, "True").as_bytes()).is_ok());
        assert!(check(Question::Done, page(2, "True").as_bytes()).is_err());
        assert!(check(Question::Done, page(1, "False").as_bytes()).is_err());
    }
}
