//! The output of a long apply: a line per resource on stdout, a bar on a terminal, a summary at the end.

use std::process::ExitCode;

use hyperfleet_service::shutdown::Signal;
use indicatif::ProgressBar;

use super::write::Applied;
use super::{common_exit, print_failure};
use crate::output;
use crate::output::paint::{Tone, paint};
use crate::output::progress_bar::progress_bar;

/// The counts of outcomes, and the bar that shows them.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    total: usize,
    created: usize,
    changed: usize,
    unchanged: usize,
    printed: usize,
    failures: Vec<u8>,
    dry_run: bool,
}

impl Progress {
    /// Of so many documents. Without a terminal there is no bar.
    pub(super) fn new(total: usize, dry_run: bool) -> Self {
        let bar = if total > 1 { progress_bar("Applying", total) } else { ProgressBar::hidden() };
        Self { bar, total, created: 0, changed: 0, unchanged: 0, printed: 0, failures: Vec::new(), dry_run }
    }

    /// How many documents have an outcome.
    fn done(&self) -> usize {
        self.created + self.changed + self.unchanged + self.printed + self.failures.len()
    }

    /// Counts one more outcome.
    pub(super) fn count(&mut self, display_name: &str, outcome: &Applied) {
        let (word, tone) = match outcome {
            Applied::Created => ("created", Tone::Good),
            Applied::Changed => ("changed", Tone::Pending),
            Applied::Unchanged => ("unchanged", Tone::Faint),
            Applied::Printed | Applied::Failed(_) => ("", Tone::Plain),
        };
        match outcome {
            Applied::Created => self.created += 1,
            Applied::Changed => self.changed += 1,
            Applied::Unchanged => self.unchanged += 1,
            Applied::Printed => self.printed += 1,
            Applied::Failed(failure) => self.failures.push(failure.code),
        }
        let dry = if self.dry_run { " (dry run)" } else { "" };
        match outcome {
            Applied::Printed => {}
            Applied::Failed(failure) => print_failure(display_name, failure),
            _ => {
                output::data(&format!("{display_name} {}{dry}\n", paint(word, tone, output::data_colours())));
            }
        }
        self.bar.inc(1);
    }

    /// Announces that no further document is started.
    pub(super) fn interrupt(&mut self, signal: Signal) {
        self.bar.finish_and_clear();
        output::message(&output::dim(&format!(
            "{signal}: waiting for the requests under way; a second signal stops at once"
        )));
    }

    /// Prints the summary before a failure that ends the whole command.
    pub(super) fn break_off(mut self) {
        if self.done() > 0 {
            self.sum_up();
        }
    }

    fn sum_up(&mut self) {
        self.bar.finish_and_clear();
        if self.printed == 0 {
            let failed = format!("{} failed", self.failures.len());
            let failed = if self.failures.is_empty() { failed } else { output::red(&failed) };
            output::message(&format!(
                "{} created, {} changed, {} unchanged, {failed}",
                self.created, self.changed, self.unchanged
            ));
        }
    }

    /// The summary, and how the command ends.
    pub(super) fn finish(mut self, interrupted: Option<Signal>) -> ExitCode {
        self.sum_up();
        if let Some(signal) = interrupted {
            output::message(&format!(
                "interrupted: {} not done; run it again to continue",
                self.total - self.done()
            ));
            return ExitCode::from(signal.exit_code());
        }
        common_exit(&self.failures)
    }
}
