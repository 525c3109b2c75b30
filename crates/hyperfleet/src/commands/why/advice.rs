//! The advice of the server with commands in place of requests. A request without a matching command stays as it is.

use hyperfleet_client::{Explanation, Kind, Resource};

use crate::remote::kinds::{Kinds, singular};
use crate::remote::owners::Owners;
use crate::remote::target::looks_like_an_id;

const METHODS: [&str; 4] = ["GET", "PATCH", "POST", "DELETE"];

/// The facts that turn a request into a command.
#[derive(Debug)]
pub(crate) struct Advice<'a> {
    kinds: &'a Kinds,
    owners: &'a Owners,
    /// The resource that was asked about, if it was found by this name.
    own: Option<&'a str>,
}

/// The ids that the advice mentions.
pub(crate) fn ids(explanation: &Explanation) -> Vec<String> {
    let actions = explanation.blockers.iter().map(|blocker| blocker.action.as_str());
    let parts = actions.flat_map(|action| action.split(|c: char| !c.is_ascii_alphanumeric() && c != '-'));
    parts.filter(|part| looks_like_an_id(part)).map(str::to_owned).collect()
}

impl<'a> Advice<'a> {
    /// On a resource, which the words of the call name.
    pub(crate) fn new(
        kinds: &'a Kinds,
        owners: &'a Owners,
        resource: &'a Resource,
        words: &[String],
    ) -> Self {
        let said = words.last();
        let by_name = said.is_some_and(|said| said.rsplit('/').next() == Some(resource.name()));
        Self { kinds, owners, own: by_name.then(|| resource.id()) }
    }

    /// An advice with commands in place of requests.
    pub(crate) fn as_commands(&self, action: &str) -> String {
        let mut out = String::new();
        let mut rest = action;
        while let Some((before, request, after)) = next_request(rest) {
            out.push_str(before);
            match self.command(request) {
                Some(command) => out.push_str(&format!("`{command}`")),
                None => out.push_str(request),
            }
            rest = after;
        }
        // The command has a flag for the reason already.
        (out + rest).replace("Read `", "See `").replace("REASON` with a reason", "REASON`")
    }

    /// The command that makes a request.
    fn command(&self, request: &str) -> Option<String> {
        let (method, path) = request.split_once(' ')?;
        let path = path.split_once("/v1/")?.1;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let segments: Vec<&str> = path.split('/').collect();
        // Owners may stand in front; the last id is what it is about.
        let at = segments.iter().rposition(|segment| looks_like_an_id(segment))?;
        let plural = segments[at.checked_sub(1)?];
        let kind = self.kinds.all().iter().find(|kind| kind.plural == plural)?;
        let what = self.display_name(kind, segments[at]);
        let rest = &segments[at + 1..];
        Some(match (method, rest, query) {
            ("GET", [], "") => format!("hyperfleet get {what} -o yaml"),
            ("GET", ["statuses"], "") => format!("hyperfleet statuses {what}"),
            ("GET", ["explain"], "") => format!("hyperfleet why {what}"),
            ("GET", [plural], "showDeleted=true") => {
                format!("hyperfleet get {plural} --in {what} --show-deleted")
            }
            ("PATCH", [], "") => format!("hyperfleet edit {what}"),
            ("DELETE", [], "") => format!("hyperfleet delete {what}"),
            ("POST", ["force-delete"], "") => format!("hyperfleet force-delete {what} --reason REASON"),
            _ => return None,
        })
    }

    /// By name where that leads to this one: the name of what is being deleted may mean a successor.
    fn display_name(&self, kind: &Kind, id: &str) -> String {
        let means_it = self.own == Some(id) || self.owners.is_active(id);
        let by_name = self.owners.named(id).filter(|_| means_it);
        by_name.unwrap_or_else(|| format!("{}/{id}", singular(&kind.kind)))
    }
}

/// What stands before the next `METHOD /path`, that itself, and what stands behind it.
fn next_request(text: &str) -> Option<(&str, &str, &str)> {
    let starts = METHODS.iter().filter_map(|method| text.find(&format!("{method} /api/")));
    let start = starts.min()?;
    let path = start + text[start..].find('/')?;
    let end = path + text[path..].find(char::is_whitespace).unwrap_or(text.len() - path);
    let end = path + text[path..end].trim_end_matches(['.', ',', ';']).len();
    Some((&text[..start], &text[start..end], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0198c0de-1111-7abc-8def-000000000001";
    const OTHER: &str = "0198c0de-1111-7abc-8def-000000000002";

    #[test]
    fn requests_become_commands_and_everything_else_stays() {
        let kind = |kind: &str, plural: &str, parent: Option<&str>| Kind {
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            parent_kind: parent.map(str::to_owned),
        };
        let kinds = Kinds::new(vec![
            kind("Cluster", "clusters", None),
            kind("NodePool", "nodepools", Some("Cluster")),
        ]);
        let owners = Owners::default();
        let advice = Advice { kinds: &kinds, owners: &owners, own: None };
        let base = "/api/hyperfleet/v1";
        for (said, expected) in [
            (
                format!(
                    "Read GET {base}/clusters/{ID}/statuses and the logs; if the spec is wrong, PATCH {base}/clusters/{ID}."
                ),
                format!(
                    "See `hyperfleet statuses cluster/{ID}` and the logs; if the spec is wrong, `hyperfleet edit cluster/{ID}`."
                ),
            ),
            (
                format!("Read GET {base}/clusters/{OTHER}/nodepools/{ID}/explain, which says what holds it."),
                format!("See `hyperfleet why nodepool/{ID}`, which says what holds it."),
            ),
            (
                format!("As a last resort POST {base}/nodepools/{ID}/force-delete with a reason."),
                format!("As a last resort `hyperfleet force-delete nodepool/{ID} --reason REASON`."),
            ),
            (
                format!("Read GET {base}/clusters/{ID}/nodepools?showDeleted=true, which lists them."),
                format!("See `hyperfleet get nodepools --in cluster/{ID} --show-deleted`, which lists them."),
            ),
            (
                format!("PATCH {base}/clusters/{ID} without the reference, or DELETE {base}/clusters/{ID}."),
                format!(
                    "`hyperfleet edit cluster/{ID}` without the reference, or `hyperfleet delete cluster/{ID}`."
                ),
            ),
        ] {
            assert_eq!(advice.as_commands(&said), expected);
        }
        for stays in [
            format!("Read GET {base}/resources/{ID}/statuses."),
            format!("GET {base}/clusters/{ID}/statuses/more"),
            "GET /api/ and POST /api/x/v1/".to_owned(),
            "Wait for its next report, or GET it. DELETE".to_owned(),
        ] {
            assert_eq!(advice.as_commands(&stays), stays);
        }
    }
}
