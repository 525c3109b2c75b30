//! Cancellation of a read: by its deadline, or because its caller has gone. A read runs on one thread from its beginning
//! to its end, so SQLite's progress handler and the registered functions find the cancellation in that thread.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::functions;
use crate::failure::{Failure, FailureKind};

thread_local! {
    static CURRENT: RefCell<Option<Cancellation>> = const { RefCell::new(None) };
}

#[derive(Debug)]
pub(super) struct Cancellation {
    deadline: Instant,
    caller: Weak<Caller>,
}

/// A caller that waits until it drops this.
#[derive(Debug)]
pub(super) struct Caller;

impl Cancellation {
    pub(super) fn new(time: Duration) -> (Self, Arc<Caller>) {
        let caller = Arc::new(Caller);
        (Self { deadline: Instant::now() + time, caller: Arc::downgrade(&caller) }, caller)
    }

    fn is_cancelled(&self) -> bool {
        self.caller.strong_count() == 0 || Instant::now() >= self.deadline
    }

    /// Executes a read, unless it is cancelled already.
    pub(super) fn run<T>(self, read: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        if self.is_cancelled() {
            return Err(Failure::new(FailureKind::Timeout, "the read never began"));
        }
        CURRENT.set(Some(self));
        let _end = End;
        read()
    }
}

/// Whether the read on this thread is cancelled.
pub(super) fn is_cancelled() -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_some_and(Cancellation::is_cancelled))
}

/// Also after a panic.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        CURRENT.set(None);
        functions::forget();
    }
}
