//! The documents as a whole: links lead somewhere, and the references of errors and metrics are complete.

use std::path::{Path, PathBuf};

use hyperfleet_testkit::{Client, eventually};

use crate::operations::program::Program;
use crate::support::DEADLINE;

const CONTRACT: &str = include_str!("../../../../../openapi/hyperfleet.yaml");
const ERRORS: &str = include_str!("../../../../../docs/reference/errors.md");
const METRICS: &str = include_str!("../../../../../docs/reference/metrics.md");

#[test]
fn every_link_of_a_document_leads_to_a_file_and_a_heading() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = Vec::new();
    for folder in
        [".", "docs", "docs/tutorial", "docs/how-to", "docs/reference", "docs/explanation", "docs/decisions"]
    {
        let files = std::fs::read_dir(root.join(folder)).unwrap().map(|file| file.unwrap().path());
        pages.extend(files.filter(|file| file.extension().is_some_and(|extension| extension == "md")));
    }
    assert!(pages.len() > 30, "{pages:?}");
    let broken: Vec<String> = pages.iter().flat_map(|page| broken_links(page)).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

fn broken_links(page: &Path) -> Vec<String> {
    let text = prose(page);
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
    let local = links.filter(|link| !link.contains(':'));
    local
        .filter(|link| !leads_somewhere(page, link))
        .map(|link| format!("{}: {link}", page.display()))
        .collect()
}

fn leads_somewhere(page: &Path, link: &str) -> bool {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target: PathBuf = if path.is_empty() { page.into() } else { page.parent().unwrap().join(path) };
    target.exists() && (heading.is_empty() || prose(&target).lines().any(|line| anchor(line) == heading))
}

/// The page without its blocks of code.
fn prose(page: &Path) -> String {
    std::fs::read_to_string(page).unwrap().split("```").step_by(2).collect()
}

/// The name by which a heading is linked.
fn anchor(line: &str) -> String {
    let heading = line.strip_prefix('#').unwrap_or_default().trim_start_matches('#').trim();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn the_reference_of_errors_lists_every_code_of_the_contract() {
    let codes = CONTRACT.lines().filter_map(|line| line.trim().strip_prefix("- HYPERFLEET-"));
    let missing: Vec<&str> = codes.clone().filter(|code| !ERRORS.contains(&format!("`{code}`"))).collect();
    assert!(codes.count() > 20 && missing.is_empty(), "{missing:?}");
}

#[tokio::test]
async fn the_reference_of_metrics_lists_every_metric_that_a_process_serves() {
    let program = Program::new();
    let up = program.start(&["up", "--memory", "--port", "0", "--health-port", "0", "--metrics-port", "0"]);
    let address = eventually("the address of the metrics", DEADLINE, async || {
        let said = up.stderr().join("\n");
        said.lines().find_map(|line| line.trim().strip_prefix("Metrics   ").map(str::to_owned))
    })
    .await;
    let answer = Client::new(address.trim_end_matches("/metrics")).get("/metrics").await.expect_status(200);
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let served = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let missing: Vec<&str> = served.clone().filter(|name| !METRICS.contains(*name)).collect();
    assert!(served.count() > 20 && missing.is_empty(), "{missing:?}");
}
