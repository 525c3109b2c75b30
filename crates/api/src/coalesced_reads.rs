//! Single flight for reads: concurrent equal reads are answered by one query. Callers that arrive while a query runs wait
//! for the next one, which one of them makes for all. So no caller gets a state from before its request, a lone caller
//! never waits, and a thousand dashboards with the same page cost as much as two queries for each thread.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a caller waits for the query of another before it makes its own.
const WAIT_LIMIT: Duration = Duration::from_secs(1);

/// Reads by the key that makes two of them equal, with answers that are cheap to clone.
pub(crate) struct CoalescedReads<K: Eq + Hash, V> {
    /// The queries that run, and the callers that wait for the next one of each key.
    queries: Arc<Queries<K, V>>,
}

type Queries<K, V> = Mutex<HashMap<Arc<K>, Waiters<K, V>>>;
type Waiters<K, V> = Vec<oneshot::Sender<Delivery<K, V>>>;

/// What a waiting caller receives.
enum Delivery<K: Eq + Hash, V> {
    Answer(V),
    /// The right to make the query, with the callers that wait for it.
    Right(QueryRight<K, V>),
}

impl<K: Eq + Hash, V> Default for CoalescedReads<K, V> {
    fn default() -> Self {
        Self { queries: Arc::default() }
    }
}

impl<K: Eq + Hash, V: Clone> CoalescedReads<K, V> {
    /// The answer to a read, from `query` or from the query of another caller. A failure is returned to one caller only:
    /// the next waiting caller makes the query for the rest.
    pub(crate) async fn answer<E>(
        &self,
        key: &Arc<K>,
        query: impl AsyncFnOnce() -> Result<V, E>,
    ) -> Result<V, E> {
        let mut right = match self.join(key) {
            Ok(right) => right,
            Err(delivery) => match timeout(WAIT_LIMIT, delivery).await {
                Ok(Ok(Delivery::Answer(answer))) => return Ok(answer),
                Ok(Ok(Delivery::Right(right))) => right,
                Ok(Err(_)) | Err(_) => return query().await,
            },
        };
        let answer = query().await?;
        let waiters = std::mem::take(&mut right.waiters);
        drop(right);
        for waiter in waiters {
            // A caller that is gone needs no answer.
            let _ = waiter.send(Delivery::Answer(answer.clone()));
        }
        Ok(answer)
    }

    /// The right to make the query, or the receiver to wait on.
    fn join(&self, key: &Arc<K>) -> Result<QueryRight<K, V>, oneshot::Receiver<Delivery<K, V>>> {
        let mut queries = lock(&self.queries);
        if let Some(waiting) = queries.get_mut(key) {
            // Senders of callers that are gone must not pile up behind a slow query.
            if waiting.len() == waiting.capacity() {
                waiting.retain(|sender| !sender.is_closed());
            }
            let (sender, receiver) = oneshot::channel();
            waiting.push(sender);
            return Err(receiver);
        }
        queries.insert(Arc::clone(key), Vec::new());
        Ok(QueryRight { queries: Arc::clone(&self.queries), key: Arc::clone(key), waiters: Vec::new() })
    }
}

/// The right to make the query of one key. There is one at a time; when it ends, it passes to a waiting caller.
struct QueryRight<K: Eq + Hash, V> {
    queries: Arc<Queries<K, V>>,
    key: Arc<K>,
    /// Callers that get the same answer.
    waiters: Waiters<K, V>,
}

impl<K: Eq + Hash, V> Drop for QueryRight<K, V> {
    fn drop(&mut self) {
        let mut queries = lock(&self.queries);
        let Some(waiting) = queries.get_mut(&self.key) else { return };
        let mut waiters = std::mem::take(&mut self.waiters);
        waiters.append(waiting);
        waiters.retain(|sender| !sender.is_closed());
        let Some(next) = waiters.pop() else {
            queries.remove(&self.key);
            return;
        };
        drop(queries);
        let right = Self { queries: Arc::clone(&self.queries), key: Arc::clone(&self.key), waiters };
        // If the receiver is gone, the right inside the refused message is dropped and passes on again.
        let _ = next.send(Delivery::Right(right));
    }
}

/// No code that can panic runs under this lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    /// A query that waits for a permit of its gate, and returns its number.
    struct GatedQuery {
        reads: CoalescedReads<&'static str, u64>,
        count: AtomicU64,
        gate: tokio::sync::Semaphore,
    }

    impl GatedQuery {
        fn new() -> Arc<Self> {
            let gate = tokio::sync::Semaphore::new(0);
            Arc::new(Self { reads: CoalescedReads::default(), count: AtomicU64::new(0), gate })
        }

        /// Starts a read, and waits until it has joined.
        async fn read(self: &Arc<Self>, key: &'static str) -> JoinHandle<Result<u64, &'static str>> {
            let this = Arc::clone(self);
            let task = tokio::spawn(async move {
                let run = async || {
                    let number = this.count.fetch_add(1, Ordering::SeqCst) + 1;
                    this.gate.acquire().await.map_err(|_| "closed")?.forget();
                    Ok(number)
                };
                this.reads.answer(&Arc::new(key), run).await
            });
            yield_now().await;
            task
        }

        fn is_at_rest(&self) -> bool {
            lock(&self.reads.queries).is_empty()
        }
    }

    #[tokio::test]
    async fn waiting_callers_share_the_next_query_and_never_the_running_one() {
        let query = GatedQuery::new();
        let first = query.read("a").await;
        let waiting = [query.read("a").await, query.read("a").await, query.read("a").await];
        let other = query.read("b").await;
        assert_eq!(query.count.load(Ordering::SeqCst), 2);
        query.gate.add_permits(3);
        assert_eq!(first.await.unwrap(), Ok(1));
        assert_eq!(other.await.unwrap(), Ok(2));
        for task in waiting {
            assert_eq!(task.await.unwrap(), Ok(3));
        }
        assert!(query.is_at_rest());
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_passes_its_right_on() {
        let query = GatedQuery::new();
        let first = query.read("a").await;
        let waiting = [query.read("a").await, query.read("a").await, query.read("a").await];
        // The caller that queries, then the caller that got the right after it.
        first.abort();
        assert!(first.await.is_err());
        yield_now().await;
        let [one, two, three] = waiting;
        three.abort();
        assert!(three.await.is_err());
        query.gate.add_permits(2);
        assert!(one.await.unwrap().is_ok() && two.await.unwrap().is_ok());
        assert!(query.is_at_rest());
    }

    #[tokio::test]
    async fn a_right_whose_receiver_is_gone_passes_on() {
        let reads: CoalescedReads<&str, u64> = CoalescedReads::default();
        let key = Arc::new("a");
        let Ok(right) = reads.join(&key) else { panic!("no query runs yet") };
        let Err(mut waits) = reads.join(&key) else { panic!("a query runs") };
        let Err(gone) = reads.join(&key) else { panic!("a query runs") };
        drop(right);
        // The caller that joined last has the right, and goes away without receiving it.
        assert!(waits.try_recv().is_err());
        drop(gone);
        let Ok(Delivery::Right(right)) = waits.try_recv() else { panic!("the right was passed on") };
        drop(right);
        assert!(lock(&reads.queries).is_empty());
    }

    #[tokio::test]
    async fn a_caller_stops_waiting_for_a_slow_query() {
        let query = GatedQuery::new();
        let first = query.read("a").await;
        let second = query.read("a").await;
        while query.count.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(WAIT_LIMIT / 10).await;
        }
        query.gate.add_permits(2);
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(1), Ok(2)));
        assert!(query.is_at_rest());
    }

    #[tokio::test]
    async fn senders_of_callers_that_are_gone_do_not_pile_up() {
        let reads: CoalescedReads<&str, u64> = CoalescedReads::default();
        let key = Arc::new("a");
        let _right = reads.join(&key);
        for _ in 0..1000 {
            drop(reads.join(&key));
        }
        assert!(lock(&reads.queries)[&key].len() < 10);
    }

    #[tokio::test]
    async fn a_failure_is_returned_to_one_caller_only() {
        let query = GatedQuery::new();
        let tasks = [query.read("a").await, query.read("a").await, query.read("a").await];
        query.gate.close();
        for task in tasks {
            assert_eq!(task.await.unwrap(), Err("closed"));
        }
        assert_eq!(query.count.load(Ordering::SeqCst), 3);
        assert!(query.is_at_rest());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_caller_gets_a_state_from_before_its_request() {
        let reads: Arc<CoalescedReads<u64, u64>> = Arc::default();
        let (state, count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let tasks: Vec<_> = (0..32)
            .map(|caller: u64| {
                let (reads, state, count) = (reads.clone(), state.clone(), count.clone());
                tokio::spawn(async move {
                    for round in 0..500 {
                        let before = state.fetch_add(1, Ordering::SeqCst) + 1;
                        let run = async || {
                            count.fetch_add(1, Ordering::SeqCst);
                            let seen = state.load(Ordering::SeqCst);
                            yield_now().await;
                            Ok::<_, ()>(seen)
                        };
                        let key = Arc::new(caller % 3);
                        let answer = reads.answer(&key, run);
                        // Some callers go away before they get an answer.
                        if (caller + round).is_multiple_of(7) {
                            tokio::select! {
                                biased;
                                answer = answer => assert!(answer.unwrap() >= before),
                                () = yield_now() => {}
                            }
                        } else {
                            assert!(answer.await.unwrap() >= before);
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(lock(&reads.queries).is_empty());
        assert!(count.load(Ordering::SeqCst) < 32 * 500);
    }
}
