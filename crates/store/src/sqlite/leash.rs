//! How long a read may go on: until its deadline, and while its caller waits for it. A read runs on one thread from its
//! beginning to its end, so that is where SQLite's machine and our functions look, however deep in a row they are.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::functions;
use crate::failure::{Failure, FailureKind};

thread_local! {
    static HELD: RefCell<Option<Leash>> = const { RefCell::new(None) };
}

#[derive(Debug)]
pub(super) struct Leash {
    deadline: Instant,
    caller: Weak<Caller>,
}

/// Whoever drops this waits no longer.
#[derive(Debug)]
pub(super) struct Caller;

impl Leash {
    pub(super) fn new(time: Duration) -> (Self, Arc<Caller>) {
        let caller = Arc::new(Caller);
        (Self { deadline: Instant::now() + time, caller: Arc::downgrade(&caller) }, caller)
    }

    fn is_over(&self) -> bool {
        self.caller.strong_count() == 0 || Instant::now() >= self.deadline
    }

    /// Carries out a read, unless it is too late for it already.
    pub(super) fn hold<T>(self, read: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        if self.is_over() {
            return Err(Failure::new(FailureKind::Timeout, "the read never began"));
        }
        HELD.set(Some(self));
        let _end = End;
        read()
    }
}

/// Whether the read on this thread must end. One without a leash never must.
pub(super) fn is_over() -> bool {
    HELD.with_borrow(|held| held.as_ref().is_some_and(Leash::is_over))
}

/// Also after a panic.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        HELD.set(None);
        functions::forget();
    }
}
