//! One task, or share of connections, for each runtime: that of the server, and those of its worker threads. A task that
//! runs where its callers do wakes none of them across threads.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{PoisonError, RwLock};

use tokio::runtime::{Handle, Id};
use tokio::sync::mpsc;

/// The most runtimes with their own, because each may take connections to the database. Later runtimes share.
pub(crate) const MOST: usize = 8;

/// Values by runtime.
#[derive(Debug)]
pub(crate) struct PerRuntime<T>(RwLock<Vec<(Id, T)>>);

/// A handle to what belongs to a runtime.
pub(crate) trait RuntimeHandle: Clone {
    /// Whether it ended with its runtime.
    fn is_closed(&self) -> bool;
}

impl<T> RuntimeHandle for mpsc::Sender<T> {
    fn is_closed(&self) -> bool {
        self.is_closed()
    }
}

impl<T> Default for PerRuntime<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T: RuntimeHandle> PerRuntime<T> {
    /// The value of the current runtime, made by `start` if there is none.
    pub(crate) fn here(&self, start: impl FnOnce(&Handle) -> T) -> T {
        let here = Handle::current();
        let values = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = of(&values, here.id()) {
            return value;
        }
        drop(values);
        let mut values = self.0.write().unwrap_or_else(PoisonError::into_inner);
        values.retain(|(_, value)| !value.is_closed());
        // Another thread of the same runtime may have been faster.
        of(&values, here.id()).unwrap_or_else(|| {
            let value = start(&here);
            values.push((here.id(), value.clone()));
            value
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// The value of a runtime: its own, or, where there are many runtimes, always the same of the others.
fn of<T: RuntimeHandle>(values: &[(Id, T)], here: Id) -> Option<T> {
    let own = values.iter().find(|(of, _)| *of == here);
    let shared = || {
        let mut hasher = DefaultHasher::new();
        here.hash(&mut hasher);
        values.get(hasher.finish() as usize % MOST).filter(|_| values.len() >= MOST)
    };
    own.or_else(shared).map(|(_, value)| value.clone()).filter(|value| !value.is_closed())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::mpsc;

    use super::*;

    #[derive(Debug, Clone)]
    struct Path(mpsc::Sender<()>, usize);

    impl RuntimeHandle for Path {
        fn is_closed(&self) -> bool {
            self.0.is_closed()
        }
    }

    /// The number of the value that a runtime is given.
    fn number(values: &PerRuntime<Path>, started: &AtomicUsize, runtime: &Runtime) -> usize {
        let start = |here: &Handle| {
            let (sender, mut receiver) = mpsc::channel(1);
            here.spawn(async move { receiver.recv().await });
            Path(sender, started.fetch_add(1, Ordering::Relaxed))
        };
        runtime.block_on(async { values.here(start).1 })
    }

    #[test]
    fn each_runtime_has_its_own_until_there_are_many_and_another_when_its_own_has_ended() {
        let (values, started) = (PerRuntime::default(), AtomicUsize::new(0));
        let runtime = || Builder::new_current_thread().build().unwrap();
        let mut runtimes: Vec<Runtime> = (0..MOST).map(|_| runtime()).collect();
        for _ in 0..2 {
            let numbers: Vec<usize> = runtimes.iter().map(|one| number(&values, &started, one)).collect();
            assert_eq!(numbers, (0..MOST).collect::<Vec<_>>());
        }
        let late = runtime();
        let shared = number(&values, &started, &late);
        assert!(shared < MOST);
        assert_eq!(number(&values, &started, &late), shared, "always the same");
        drop(runtimes.remove(shared));
        assert_eq!(number(&values, &started, &late), MOST, "its own, now that there is room");
        assert_eq!(values.count(), MOST);
    }
}
