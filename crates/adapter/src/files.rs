//! Bounded reads of files. A pipe or a device is none: it might never end.

use std::fmt::Display;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Largest file of a param, in bytes.
pub(crate) const MAX_PARAM: u64 = 1 << 20;

/// The text of a regular file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<String, String> {
    let cannot = |failure: &dyn Display| format!("cannot read {}: {failure}", path.display());
    // Asked before it is opened, because a pipe cannot even be opened without waiting for its other end.
    if !std::fs::metadata(path).map_err(|failure| cannot(&failure))?.is_file() {
        return Err(cannot(&"it is not a regular file"));
    }
    let file = File::open(path).map_err(|failure| cannot(&failure))?;
    let mut text = String::new();
    file.take(limit + 1).read_to_string(&mut text).map_err(|failure| cannot(&failure))?;
    match u64::try_from(text.len()).is_ok_and(|length| length <= limit) {
        true => Ok(text),
        false => Err(cannot(&format!("it is larger than {limit} bytes"))),
    }
}

/// The same for a file below one of these directories. Links are resolved, so that none leads out.
pub(crate) fn read_below(path: &Path, roots: &[PathBuf], limit: u64) -> Result<String, String> {
    let cannot = |failure: &dyn Display| format!("cannot read {}: {failure}", path.display());
    let real = path.canonicalize().map_err(|failure| cannot(&failure))?;
    let mut allowed = roots.iter().filter_map(|root| root.canonicalize().ok());
    if !allowed.any(|root| real.starts_with(root)) {
        return Err(cannot(&"it is not below security.file_roots"));
    }
    read(&real, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_and_below_the_roots_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let (inside, outside) = (directory.path().join("in"), directory.path().join("out"));
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(inside.join("a"), "text").unwrap();
        std::fs::write(outside.join("b"), "text").unwrap();
        std::os::unix::fs::symlink(outside.join("b"), inside.join("link")).unwrap();
        let roots = [inside.clone()];
        assert_eq!(read_below(&inside.join("a"), &roots, 4).as_deref(), Ok("text"));
        assert!(read_below(&inside.join("a"), &roots, 3).unwrap_err().contains("larger than 3 bytes"));
        for path in [inside.join("link"), outside.join("b"), inside.join("../out/b")] {
            assert!(read_below(&path, &roots, 9).unwrap_err().contains("not below"), "{}", path.display());
        }
        assert!(read(Path::new("/dev/zero"), 9).unwrap_err().contains("not a regular file"));
    }
}
