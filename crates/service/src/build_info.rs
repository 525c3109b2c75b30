//! Version and origin of the running binary. The binary passes them in, so that a new commit rebuilds only the binary
//! and not the crates below it.

use serde::Serialize;

/// Version and origin of a build, shown by the metadata routes, the metrics and the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BuildInfo {
    /// Release version, such as `1.0.0`.
    pub version: &'static str,
    /// Commit that was built, or `unknown`.
    pub git_sha: &'static str,
    /// Time of the build in RFC 3339, or `unknown`.
    pub build_timestamp: &'static str,
}

impl Default for BuildInfo {
    /// The version of the workspace, with an unknown origin.
    fn default() -> Self {
        Self { version: env!("CARGO_PKG_VERSION"), git_sha: "unknown", build_timestamp: "unknown" }
    }
}
