//! Equal questions that wait at the same time are asked once. While one is asked, whoever comes with the same waits, and
//! one of them then asks for all who wait by that time: so nobody is told of a state from before they came, a lone
//! caller waits for nobody, and a thousand dashboards with the same page cost as much as two for each thread.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long anyone waits for another's read. What takes longer is better asked at once than after that one.
const PATIENCE: Duration = Duration::from_secs(1);

/// Questions by what makes two of them equal, with answers that are cheap to clone.
pub(crate) struct Sharing<K: Eq + Hash, V> {
    /// The questions that are being asked, and who waits for the next answer to each.
    asked: Arc<Asked<K, V>>,
}

type Asked<K, V> = Mutex<HashMap<Arc<K>, Waiting<K, V>>>;
type Waiting<K, V> = Vec<oneshot::Sender<Told<K, V>>>;

/// What someone who waits is told.
enum Told<K: Eq + Hash, V> {
    Answer(V),
    /// To ask.
    Ask(Turn<K, V>),
}

impl<K: Eq + Hash, V> Default for Sharing<K, V> {
    fn default() -> Self {
        Self { asked: Arc::default() }
    }
}

impl<K: Eq + Hash, V: Clone> Sharing<K, V> {
    /// The answer to a question, by `ask` or by whoever asks the same. A failure is nobody else's: the next of those who
    /// waited for it asks for the others.
    pub(crate) async fn answer<E>(
        &self,
        key: &Arc<K>,
        ask: impl AsyncFnOnce() -> Result<V, E>,
    ) -> Result<V, E> {
        let mut turn = match self.line_up(key) {
            Ok(turn) => turn,
            Err(told) => match timeout(PATIENCE, told).await {
                Ok(Ok(Told::Answer(answer))) => return Ok(answer),
                Ok(Ok(Told::Ask(turn))) => turn,
                Ok(Err(_)) | Err(_) => return ask().await,
            },
        };
        let answer = ask().await?;
        let others = std::mem::take(&mut turn.others);
        drop(turn);
        for other in others {
            // Who does not wait any more needs none.
            let _ = other.send(Told::Answer(answer.clone()));
        }
        Ok(answer)
    }

    /// The turn to ask, or where to wait for it.
    fn line_up(&self, key: &Arc<K>) -> Result<Turn<K, V>, oneshot::Receiver<Told<K, V>>> {
        let mut asked = lock(&self.asked);
        if let Some(waiting) = asked.get_mut(key) {
            // Those who went away must not pile up behind a slow answer.
            if waiting.len() == waiting.capacity() {
                waiting.retain(|sender| !sender.is_closed());
            }
            let (sender, receiver) = oneshot::channel();
            waiting.push(sender);
            return Err(receiver);
        }
        asked.insert(Arc::clone(key), Vec::new());
        Ok(Turn { asked: Arc::clone(&self.asked), key: Arc::clone(key), others: Vec::new() })
    }
}

/// The right to ask a question, of which there is one. However it ends, it goes on to someone who waits, if anyone does.
struct Turn<K: Eq + Hash, V> {
    asked: Arc<Asked<K, V>>,
    key: Arc<K>,
    /// Who gets the answer too.
    others: Waiting<K, V>,
}

impl<K: Eq + Hash, V> Drop for Turn<K, V> {
    fn drop(&mut self) {
        let mut asked = lock(&self.asked);
        let Some(waiting) = asked.get_mut(&self.key) else { return };
        let mut others = std::mem::take(&mut self.others);
        others.append(waiting);
        others.retain(|sender| !sender.is_closed());
        let Some(next) = others.pop() else {
            asked.remove(&self.key);
            return;
        };
        drop(asked);
        let turn = Self { asked: Arc::clone(&self.asked), key: Arc::clone(&self.key), others };
        // If that one has just gone, the turn is dropped with what could not be sent, and goes on from there.
        let _ = next.send(Told::Ask(turn));
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

    /// A question that waits until it is let go, and answers with its number.
    struct Oracle {
        sharing: Sharing<&'static str, u64>,
        asked: AtomicU64,
        gate: tokio::sync::Semaphore,
    }

    impl Oracle {
        fn new() -> Arc<Self> {
            let gate = tokio::sync::Semaphore::new(0);
            Arc::new(Self { sharing: Sharing::default(), asked: AtomicU64::new(0), gate })
        }

        /// Asks, and waits until that has begun.
        async fn ask(self: &Arc<Self>, key: &'static str) -> JoinHandle<Result<u64, &'static str>> {
            let this = Arc::clone(self);
            let task = tokio::spawn(async move {
                let ask = async || {
                    let number = this.asked.fetch_add(1, Ordering::SeqCst) + 1;
                    this.gate.acquire().await.map_err(|_| "closed")?.forget();
                    Ok(number)
                };
                this.sharing.answer(&Arc::new(key), ask).await
            });
            yield_now().await;
            task
        }

        fn is_at_rest(&self) -> bool {
            lock(&self.sharing.asked).is_empty()
        }
    }

    #[tokio::test]
    async fn those_who_wait_share_the_next_answer_and_never_the_one_on_its_way() {
        let oracle = Oracle::new();
        let first = oracle.ask("a").await;
        let waiting = [oracle.ask("a").await, oracle.ask("a").await, oracle.ask("a").await];
        let other = oracle.ask("b").await;
        assert_eq!(oracle.asked.load(Ordering::SeqCst), 2);
        oracle.gate.add_permits(3);
        assert_eq!(first.await.unwrap(), Ok(1));
        assert_eq!(other.await.unwrap(), Ok(2));
        for task in waiting {
            assert_eq!(task.await.unwrap(), Ok(3));
        }
        assert!(oracle.is_at_rest());
    }

    #[tokio::test]
    async fn whoever_goes_away_leaves_nobody_waiting() {
        let oracle = Oracle::new();
        let first = oracle.ask("a").await;
        let waiting = [oracle.ask("a").await, oracle.ask("a").await, oracle.ask("a").await];
        // The one who asks, then the one whose turn it has become.
        first.abort();
        assert!(first.await.is_err());
        yield_now().await;
        let [one, two, three] = waiting;
        three.abort();
        assert!(three.await.is_err());
        oracle.gate.add_permits(2);
        assert!(one.await.unwrap().is_ok() && two.await.unwrap().is_ok());
        assert!(oracle.is_at_rest());
    }

    #[tokio::test]
    async fn a_turn_that_reaches_nobody_goes_on() {
        let sharing: Sharing<&str, u64> = Sharing::default();
        let key = Arc::new("a");
        let Ok(turn) = sharing.line_up(&key) else { panic!("nobody asks yet") };
        let Err(mut waits) = sharing.line_up(&key) else { panic!("someone asks") };
        let Err(goes) = sharing.line_up(&key) else { panic!("someone asks") };
        drop(turn);
        // The last in line has the turn, and goes without looking.
        assert!(waits.try_recv().is_err());
        drop(goes);
        let Ok(Told::Ask(turn)) = waits.try_recv() else { panic!("the turn went on") };
        drop(turn);
        assert!(lock(&sharing.asked).is_empty());
    }

    #[tokio::test]
    async fn nobody_waits_long_for_another() {
        let oracle = Oracle::new();
        let first = oracle.ask("a").await;
        let second = oracle.ask("a").await;
        while oracle.asked.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(PATIENCE / 10).await;
        }
        oracle.gate.add_permits(2);
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(1), Ok(2)));
        assert!(oracle.is_at_rest());
    }

    #[tokio::test]
    async fn those_who_went_away_do_not_pile_up() {
        let sharing: Sharing<&str, u64> = Sharing::default();
        let key = Arc::new("a");
        let _turn = sharing.line_up(&key);
        for _ in 0..1000 {
            drop(sharing.line_up(&key));
        }
        assert!(lock(&sharing.asked)[&key].len() < 10);
    }

    #[tokio::test]
    async fn a_failure_is_nobody_elses() {
        let oracle = Oracle::new();
        let tasks = [oracle.ask("a").await, oracle.ask("a").await, oracle.ask("a").await];
        oracle.gate.close();
        for task in tasks {
            assert_eq!(task.await.unwrap(), Err("closed"));
        }
        assert_eq!(oracle.asked.load(Ordering::SeqCst), 3);
        assert!(oracle.is_at_rest());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn nobody_is_told_of_a_state_from_before_they_came() {
        let sharing: Arc<Sharing<u64, u64>> = Arc::default();
        let (state, asked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let tasks: Vec<_> = (0..32)
            .map(|caller: u64| {
                let (sharing, state, asked) = (sharing.clone(), state.clone(), asked.clone());
                tokio::spawn(async move {
                    for round in 0..500 {
                        let before = state.fetch_add(1, Ordering::SeqCst) + 1;
                        let ask = async || {
                            asked.fetch_add(1, Ordering::SeqCst);
                            let seen = state.load(Ordering::SeqCst);
                            yield_now().await;
                            Ok::<_, ()>(seen)
                        };
                        let key = Arc::new(caller % 3);
                        let answer = sharing.answer(&key, ask);
                        // Now and then someone has no patience.
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
        assert!(lock(&sharing.asked).is_empty());
        assert!(asked.load(Ordering::SeqCst) < 32 * 500);
    }
}
