//! History: gapless versions up to that of the feed, and changes that can be read.

use hyperfleet_store::{TextRow, entries_of};

use crate::findings::Findings;
use crate::resource::{check_time, present};
use crate::stored::Cells;
use crate::{Run, VerifyError, sql};

impl Run<'_> {
    pub(crate) async fn changes(&mut self) -> Result<(), VerifyError> {
        let (mut last, mut end) = (None, None);
        loop {
            let next = sql::next_changes(self.dialect, last.unwrap_or(-1));
            let statements = [self.dialect.now(), sql::BOUNDS.to_owned(), next];
            let Some([now, bounds, rows]) = self.read("versions", "changes", statements).await? else {
                return Ok(());
            };
            let Some((pruned, newest)) = bounds_of(bounds) else {
                self.findings().note("versions", "feed", &"", "one row, beside one of history", "none");
                return Ok(());
            };
            // Those that come meanwhile are for the next verification.
            let end = *end.get_or_insert(newest);
            let (now, count) = (present(now), rows.len());
            for row in rows {
                let mut cells = Cells::of(row);
                let Ok(version) = cells.number() else { continue };
                check_version(self.findings(), version, last, pruned);
                last = Some(version);
                let read = |cells: &mut Cells| {
                    let (at, count) = (cells.time()?, cells.number()?);
                    Ok::<_, String>((at, count, entries_of(version, &cells.bytes()?)? as i64))
                };
                match read(&mut cells) {
                    Ok((at, count, entries)) => {
                        check_time(self.findings(), "changes", version, ("changed_time", at), now);
                        if entries != count {
                            let expected = format!("entry_count {entries}");
                            self.findings().note("rows", "changes", &version, expected, count.to_string());
                        }
                    }
                    Err(cause) => self.findings().note("rows", "changes", &version, "readable", cause),
                }
            }
            self.advance("changes", count, end - pruned);
            let known = last.unwrap_or(pruned).max(pruned);
            if count == 0 || known >= end {
                if known < end || known > newest {
                    let found = newest.to_string();
                    self.findings().note("versions", "feed", &"version", known.to_string(), found);
                }
                return Ok(());
            }
        }
    }
}

/// The newest pruned version and the newest version, of the only row of each table.
fn bounds_of(rows: Vec<TextRow>) -> Option<(i64, i64)> {
    let [row] = <[TextRow; 1]>::try_from(rows).ok()?;
    let mut cells = Cells::of(row);
    Some((cells.number().ok()?, cells.number().ok()?))
}

/// Each version follows the one before it, the first one that was pruned.
fn check_version(findings: &mut Findings, version: i64, last: Option<i64>, pruned: i64) {
    let expected = last.map_or(pruned, |last| last.max(pruned)) + 1;
    if version != expected {
        findings.note("versions", "changes", &version, format!("version {expected}"), version.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_and_a_change_that_should_be_pruned_are_found() {
        for (version, last, pruned, fits) in [
            (1, None, 0, true),
            (8, Some(7), 0, true),
            (6, None, 5, true),
            // History was pruned meanwhile.
            (9, Some(4), 8, true),
            (2, None, 0, false),
            (9, Some(7), 0, false),
            (4, None, 5, false),
        ] {
            let mut findings = Findings::default();
            check_version(&mut findings, version, last, pruned);
            assert_eq!(findings.is_empty(), fits, "{version} after {last:?}, pruned {pruned}");
        }
    }
}
