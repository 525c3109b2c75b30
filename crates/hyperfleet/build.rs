//! Stamps the binary with the commit and the time it was built from.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../.git/refs/heads");
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let sha = output("git", &["rev-parse", "--short=12", "HEAD"]);
    #[allow(clippy::disallowed_methods)] // a build script has no settings
    let epoch = std::env::var("SOURCE_DATE_EPOCH").unwrap_or_default();
    let at = if epoch.is_empty() { "now".to_owned() } else { format!("@{epoch}") };
    let built = output("date", &["-u", "-d", &at, "+%Y-%m-%dT%H:%M:%SZ"]);
    println!("cargo:rustc-env=HYPERFLEET_GIT_SHA={sha}");
    println!("cargo:rustc-env=HYPERFLEET_BUILD_TIMESTAMP={built}");
}

/// What a command prints, or `unknown` where there is no such command or no repository.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}
