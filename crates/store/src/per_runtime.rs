//! One of something for each runtime that asks for it: that of a server, and those of its threads that serve. A task must
//! run where those who wait for it do, or else they wake each other across threads, and end with it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{PoisonError, RwLock};

use tokio::runtime::{Handle, Id};

/// How many there may be, because each may take connections to the database. Whoever comes later shares one of them.
pub(crate) const MOST: usize = 8;

/// See above. What is handed out is the way to a task, which ends with its runtime.
#[derive(Debug)]
pub(crate) struct PerRuntime<T>(RwLock<Vec<(Id, T)>>);

/// The way to a task.
pub(crate) trait Way: Clone {
    /// Whether the task has ended.
    fn is_closed(&self) -> bool;
}

impl<T> Default for PerRuntime<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T: Way> PerRuntime<T> {
    /// That of the runtime that asks, started there if need be.
    pub(crate) fn here(&self, start: impl FnOnce(&Handle) -> T) -> T {
        let here = Handle::current();
        let ways = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(way) = of(&ways, here.id()) {
            return way;
        }
        drop(ways);
        let mut ways = self.0.write().unwrap_or_else(PoisonError::into_inner);
        ways.retain(|(_, way)| !way.is_closed());
        // Another thread of the same runtime may have been faster.
        of(&ways, here.id()).unwrap_or_else(|| {
            let way = start(&here);
            ways.push((here.id(), way.clone()));
            way
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// The way that a runtime takes: its own, or where there are many, always the same of those that there are.
fn of<T: Way>(ways: &[(Id, T)], here: Id) -> Option<T> {
    let own = ways.iter().find(|(of, _)| *of == here);
    let shared = || {
        let mut hasher = DefaultHasher::new();
        here.hash(&mut hasher);
        ways.get(hasher.finish() as usize % MOST).filter(|_| ways.len() >= MOST)
    };
    own.or_else(shared).map(|(_, way)| way.clone()).filter(|way| !way.is_closed())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::mpsc;

    use super::*;

    #[derive(Debug, Clone)]
    struct Path(mpsc::Sender<()>, usize);

    impl Way for Path {
        fn is_closed(&self) -> bool {
            self.0.is_closed()
        }
    }

    /// The number of the way that a runtime is given.
    fn number(ways: &PerRuntime<Path>, started: &AtomicUsize, runtime: &Runtime) -> usize {
        let start = |here: &Handle| {
            let (sender, mut receiver) = mpsc::channel(1);
            here.spawn(async move { receiver.recv().await });
            Path(sender, started.fetch_add(1, Ordering::Relaxed))
        };
        runtime.block_on(async { ways.here(start).1 })
    }

    #[test]
    fn each_runtime_has_its_own_until_there_are_many_and_another_when_its_own_has_ended() {
        let (ways, started) = (PerRuntime::default(), AtomicUsize::new(0));
        let runtime = || Builder::new_current_thread().build().unwrap();
        let mut runtimes: Vec<Runtime> = (0..MOST).map(|_| runtime()).collect();
        for _ in 0..2 {
            let numbers: Vec<usize> = runtimes.iter().map(|one| number(&ways, &started, one)).collect();
            assert_eq!(numbers, (0..MOST).collect::<Vec<_>>());
        }
        let late = runtime();
        let shared = number(&ways, &started, &late);
        assert!(shared < MOST);
        assert_eq!(number(&ways, &started, &late), shared, "always the same");
        drop(runtimes.remove(shared));
        assert_eq!(number(&ways, &started, &late), MOST, "its own, now that there is room");
        assert_eq!(ways.count(), MOST);
    }
}
