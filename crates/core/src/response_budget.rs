//! The memory of large responses. A response reserves what is read for it and keeps the reservation until the client has
//! taken the response, so that clients that read slowly hold no more than the budget.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Error, ErrorKind};

/// A smaller response is not counted: it is about what the buffers of a connection hold anyway.
const COUNTED: usize = 64 << 10;

/// A response up to here is counted but never refused, so that slow readers of large ones cannot keep others from these.
const NEVER_REFUSED: usize = 256 << 10;

/// How much of a page is reserved at once.
const STEP: usize = 256 << 10;

/// Connections get at most one in so many parts of the budget each.
const CONNECTIONS: usize = 4;

/// The bytes of all responses that are being read or sent. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub struct ResponseBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total: usize,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    by_connection: HashMap<SocketAddr, usize>,
}

/// What one response holds of the budget, until all clones are dropped.
#[derive(Debug, Clone)]
pub struct Reservation(Arc<Reserved>);

#[derive(Debug)]
struct Reserved {
    budget: ResponseBudget,
    connection: Option<SocketAddr>,
    /// The most bytes of a page.
    page_limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: usize,
    is_cut: bool,
    is_refused: bool,
}

impl ResponseBudget {
    /// A budget of that many bytes.
    pub fn new(total: usize) -> Self {
        Self(Arc::new(Shared { total, used: Mutex::default() }))
    }

    /// The bytes that are reserved.
    pub fn used(&self) -> usize {
        lock(&self.0.used).bytes
    }

    /// An empty reservation for a response on this connection whose page holds at most `page_limit` bytes.
    pub fn reservation(&self, connection: Option<SocketAddr>, page_limit: usize) -> Reservation {
        let budget = self.clone();
        Reservation(Arc::new(Reserved { budget, connection, page_limit, state: Mutex::default() }))
    }

    /// Changes what a response holds. It may grow if the budget and its connection have that much left, or if it holds
    /// all that is used, because otherwise a response larger than the budget could never be sent.
    fn change(&self, connection: Option<SocketAddr>, from: usize, to: usize, must: bool) -> bool {
        let Shared { total, used } = &*self.0;
        let mut used = lock(used);
        let others = used.bytes - from;
        let by_connection = connection.and_then(|connection| used.by_connection.get(&connection));
        let others_there = by_connection.map_or(0, |bytes| bytes - from);
        let fits = |others: usize, limit: usize| others == 0 || others.saturating_add(to) <= limit;
        if to > from && !must && !(fits(others, *total) && fits(others_there, total / CONNECTIONS)) {
            return false;
        }
        used.bytes = others + to;
        if let Some(connection) = connection {
            match others_there + to {
                0 => drop(used.by_connection.remove(&connection)),
                bytes => drop(used.by_connection.insert(connection, bytes)),
            }
        }
        true
    }
}

impl Reservation {
    /// Begins a page, which is read within this reservation.
    pub fn page(&self) -> PageBytes<'_> {
        PageBytes { reservation: self, bytes: 0, reserved: 0 }
    }

    /// The most bytes of a page.
    pub fn page_limit(&self) -> usize {
        self.0.page_limit
    }

    /// Whether the page ended early, because a further item would have made it larger than its limit.
    pub fn is_cut(&self) -> bool {
        lock(&self.0.state).is_cut
    }

    /// Fails if the page ended because the budget is used up.
    pub fn check(&self) -> Result<(), Error> {
        if !lock(&self.0.state).is_refused {
            return Ok(());
        }
        let detail = "Too many large responses are being sent. Please try again later.";
        Err(Error::new(ErrorKind::Overloaded, detail))
    }

    /// Whether a response of this size is counted.
    pub fn counts(size: usize) -> bool {
        size >= COUNTED
    }

    /// Whether it holds anything.
    pub fn is_used(&self) -> bool {
        lock(&self.0.state).bytes > 0
    }

    /// Reserves that many bytes in all, as far as the budget allows.
    pub fn reserve(&self, bytes: usize) -> Result<(), Error> {
        self.set(bytes, bytes <= NEVER_REFUSED);
        self.check()
    }

    /// Holds that many bytes from here on, whatever the budget allows.
    pub fn hold(&self, bytes: usize) {
        self.set(bytes, true);
    }

    fn set(&self, bytes: usize, must: bool) -> bool {
        let Reserved { budget, connection, state, .. } = &*self.0;
        let bytes = if Self::counts(bytes) { bytes } else { 0 };
        let mut state = lock(state);
        if bytes == state.bytes {
            return true;
        }
        let done = budget.change(*connection, state.bytes, bytes, must);
        if done {
            state.bytes = bytes;
        }
        state.is_refused = !done;
        done
    }
}

impl Default for Reservation {
    /// Without limits.
    fn default() -> Self {
        ResponseBudget::new(usize::MAX).reservation(None, usize::MAX)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let bytes = lock(&self.state).bytes;
        if bytes > 0 {
            self.budget.change(self.connection, bytes, 0, true);
        }
    }
}

/// The bytes of a page while it is read.
#[derive(Debug)]
pub struct PageBytes<'a> {
    reservation: &'a Reservation,
    bytes: usize,
    reserved: usize,
}

impl PageBytes<'_> {
    /// Whether the page takes an item of this size. If not, the page ends before it. The first one always fits the page,
    /// because otherwise the list could not go on.
    pub fn takes(&mut self, item: usize) -> bool {
        let bytes = self.bytes.saturating_add(item);
        if self.bytes > 0 && bytes > self.reservation.page_limit() {
            self.cut();
            return false;
        }
        if Reservation::counts(bytes) && bytes > self.reserved {
            self.reserved = bytes.saturating_add(STEP - 1) / STEP * STEP;
            if !self.reservation.set(self.reserved, bytes <= NEVER_REFUSED) {
                return false;
            }
        }
        self.bytes = bytes;
        true
    }

    /// The page ends early.
    pub fn cut(&mut self) {
        lock(&self.reservation.0.state).is_cut = true;
    }
}

/// Every change under a lock is complete before it can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn connection(port: u16) -> Option<SocketAddr> {
        Some(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    fn used(budget: &ResponseBudget) -> (usize, usize) {
        let used = lock(&budget.0.used);
        (used.bytes, used.by_connection.len())
    }

    #[test]
    fn a_page_ends_before_its_limit_and_holds_at_least_one_item() {
        let budget = ResponseBudget::new(usize::MAX);
        let reservation = budget.reservation(None, 10);
        let mut page = reservation.page();
        assert!(page.takes(4) && page.takes(6) && !reservation.is_cut());
        assert!(!page.takes(1) && reservation.is_cut());
        assert!(budget.reservation(None, 10).page().takes(11));
    }

    #[test]
    fn large_responses_are_refused_once_the_budget_is_used_and_small_ones_are_not() {
        let budget = ResponseBudget::new(16 * MIB);
        let held: Vec<_> = (0..4).map(|port| budget.reservation(connection(port), 8 * MIB)).collect();
        for reservation in &held {
            let mut page = reservation.page();
            assert!((0..4).all(|_| page.takes(MIB)));
            reservation.check().unwrap();
        }
        assert_eq!(used(&budget), (16 * MIB, 4));

        let refused = budget.reservation(connection(9), 8 * MIB);
        assert!(!refused.page().takes(MIB) && !refused.is_cut());
        assert_eq!(refused.check().unwrap_err().kind, ErrorKind::Overloaded);
        assert!(refused.reserve(MIB).is_err());
        let small = budget.reservation(connection(9), 8 * MIB);
        small.reserve(NEVER_REFUSED).unwrap();

        drop(held);
        refused.reserve(MIB).unwrap();
        drop((refused, small));
        assert_eq!(used(&budget), (0, 0));
    }

    #[test]
    fn a_connection_gets_a_quarter_and_a_lone_response_whatever_it_needs() {
        let budget = ResponseBudget::new(16 * MIB);
        let [first, second] = [(); 2].map(|()| budget.reservation(connection(1), MIB));
        first.reserve(3 * MIB).unwrap();
        assert!(second.reserve(2 * MIB).is_err());
        second.reserve(MIB).unwrap();
        budget.reservation(connection(2), MIB).reserve(2 * MIB).unwrap();
        drop((first, second));
        budget.reservation(connection(1), MIB).reserve(100 * MIB).unwrap();
    }

    #[test]
    fn a_reservation_shrinks_to_what_is_sent_and_ends_with_its_last_clone() {
        let budget = ResponseBudget::new(16 * MIB);
        let reservation = budget.reservation(connection(1), MIB);
        reservation.reserve(4 * MIB).unwrap();
        let clone = reservation.clone();
        reservation.hold(MIB);
        drop(reservation);
        assert_eq!(used(&budget), (MIB, 1));
        clone.hold(10);
        assert_eq!(used(&budget), (0, 0));
        clone.hold(20 * MIB);
        assert_eq!(budget.used(), 20 * MIB, "what must be sent is counted beyond the budget too");
    }
}
