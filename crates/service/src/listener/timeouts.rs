//! Timeouts of a connection. Socket, request and response report what happens; [`Timeouts`] computes the instant at
//! which the peer has taken too long, and for what.
//!
//! Hyper's own head timeout does not tell an idle connection from a request head that arrives byte by byte, so a short
//! limit for the second would break the first. Here each has its limit. Time that the service itself takes never
//! counts.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::backlog::Backlog;

/// How long a closing connection may still receive, so that its last response is not lost.
const CLOSING: Duration = Duration::from_secs(5);

/// The limit of each kind of wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) head: Duration,
    pub(super) write: Duration,
    pub(super) idle: Duration,
}

/// Which wait for the peer exceeded its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimedOut {
    /// A whole request head.
    Head,
    /// The next request.
    Idle,
    /// For the peer to take written bytes.
    Write,
    /// For the peer to close its side.
    Close,
}

#[derive(Debug)]
pub(super) struct Timeouts {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    since: Instant,
    running: usize,
    multiplexed: bool,
    /// When the peer has taken too little of the bytes that wait for it.
    write_due: Option<Instant>,
    body_unread: bool,
}

/// The state of the connection while no request runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Fresh,
    Head,
    Idle,
    Closing,
}

impl Timeouts {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            stage: Stage::Fresh,
            since: now,
            running: 0,
            multiplexed: false,
            write_due: None,
            body_unread: false,
        };
        Arc::new(Self { limits, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before it can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handshake is over and requests may come. On a multiplexed connection bytes are no sign of a
    /// request head, so it counts as idle until a request is there.
    pub(super) fn opened(&self, multiplexed: bool) {
        let mut state = self.state();
        state.multiplexed = multiplexed;
        state.stage = if multiplexed { Stage::Idle } else { Stage::Fresh };
        state.since = Instant::now();
    }

    /// Bytes came from the peer.
    pub(super) fn bytes_received(&self) {
        let mut state = self.state();
        if state.running > 0 || state.multiplexed {
            return;
        }
        match state.stage {
            Stage::Fresh => state.stage = Stage::Head,
            Stage::Idle => {
                state.stage = Stage::Head;
                state.since = Instant::now();
            }
            Stage::Head | Stage::Closing => {}
        }
    }

    /// A request runs until the guard is dropped.
    pub(super) fn begin_request(self: &Arc<Self>) -> RequestGuard {
        let mut state = self.state();
        state.running += 1;
        state.body_unread = false;
        RequestGuard(Arc::clone(self))
    }

    /// A write waits for the peer, until [`Timeouts::write_resumed`].
    pub(super) fn write_blocked(&self, backlog: &Backlog) {
        self.state().write_due = backlog.due(self.limits.write);
    }

    /// The peer took written bytes.
    pub(super) fn write_resumed(&self) {
        self.state().write_due = None;
    }

    /// The service answered without reading the whole body.
    pub(super) fn leave_body_unread(&self) {
        let mut state = self.state();
        state.body_unread = !state.multiplexed;
    }

    /// Whether a part of the body that the service did not read may still be on its way.
    pub(super) fn body_is_unread(&self) -> bool {
        self.state().body_unread
    }

    /// No further request is wanted: the connection drains, or it was idle for too long.
    pub(super) fn close(&self) {
        let mut state = self.state();
        if state.running == 0 {
            state.body_unread = false;
        }
        if state.stage != Stage::Head {
            state.stage = Stage::Closing;
            state.since = Instant::now();
        }
    }

    /// Whether the peer is still sending a request that will not be read. Closing at once would make the peer's system
    /// discard the response, so the rest is read for a moment.
    pub(super) fn linger(&self) -> bool {
        let mut state = self.state();
        let cut_short = state.body_unread || state.stage == Stage::Head;
        if cut_short && state.stage != Stage::Closing {
            state.body_unread = true;
            state.stage = Stage::Closing;
            state.since = Instant::now();
        }
        cut_short
    }

    fn due(&self) -> Option<(Instant, TimedOut)> {
        let state = self.state();
        let write = state.write_due.map(|due| (due, TimedOut::Write));
        let read = (state.running == 0).then(|| {
            let (limit, waited) = match state.stage {
                Stage::Fresh | Stage::Head => (self.limits.head, TimedOut::Head),
                Stage::Idle => (self.limits.idle, TimedOut::Idle),
                Stage::Closing => (CLOSING, TimedOut::Close),
            };
            (state.since + limit, waited)
        });
        [write, read].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Completes when a wait for the peer exceeds its limit. The task that drives the connection must poll it after the
    /// connection: it then sees the new deadline without a wake-up, and a deadline that only moves later costs no timer
    /// operation.
    pub(super) async fn expired(&self) -> TimedOut {
        let mut timer = pin!(sleep_until(Instant::now() + self.limits.head));
        poll_fn(|cx| {
            loop {
                let due = self.due();
                if let Some((at, _)) = due
                    && (at < timer.deadline() || timer.is_elapsed())
                {
                    timer.as_mut().reset(at);
                }
                ready!(timer.as_mut().poll(cx));
                match due {
                    Some((at, waited)) if at <= Instant::now() => return Poll::Ready(waited),
                    Some(_) => {}
                    None => return Poll::Pending,
                }
            }
        })
        .await
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<Timeouts>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running -= 1;
        if state.running == 0 {
            if state.stage != Stage::Closing {
                state.stage = Stage::Idle;
            }
            state.since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        head: Duration::from_secs(5),
        write: Duration::from_secs(10),
        idle: Duration::from_secs(75),
    };

    /// What the connection waits for, and how long after that wait began.
    fn awaited(timeouts: &Timeouts) -> Option<(TimedOut, Duration)> {
        let (at, waited) = timeouts.due()?;
        Some((waited, at - timeouts.state().since))
    }

    #[test]
    fn a_fresh_connection_and_a_begun_head_wait_briefly_but_an_idle_one_long() {
        let timeouts = Timeouts::new(LIMITS);
        assert_eq!(awaited(&timeouts), Some((TimedOut::Head, LIMITS.head)));
        drop(timeouts.begin_request());
        assert_eq!(awaited(&timeouts), Some((TimedOut::Idle, LIMITS.idle)));
        timeouts.bytes_received();
        assert_eq!(awaited(&timeouts), Some((TimedOut::Head, LIMITS.head)));
    }

    #[test]
    fn further_bytes_of_a_head_do_not_renew_its_time() {
        let timeouts = Timeouts::new(LIMITS);
        let first = timeouts.due();
        timeouts.bytes_received();
        timeouts.bytes_received();
        assert_eq!(timeouts.due(), first);
    }

    #[test]
    fn a_running_request_is_never_the_peers_delay_but_a_stuck_write_is() {
        let timeouts = Timeouts::new(LIMITS);
        let running = timeouts.begin_request();
        timeouts.bytes_received();
        assert_eq!(awaited(&timeouts), None);
        let mut backlog = Backlog::default();
        backlog.waits(Instant::now());
        timeouts.write_blocked(&backlog);
        assert_eq!(timeouts.due(), backlog.due(LIMITS.write).map(|due| (due, TimedOut::Write)));
        timeouts.write_resumed();
        assert_eq!(awaited(&timeouts), None);
        drop(running);
        assert_eq!(awaited(&timeouts), Some((TimedOut::Idle, LIMITS.idle)));
    }

    #[test]
    fn bytes_on_an_idle_multiplexed_connection_start_no_head() {
        let timeouts = Timeouts::new(LIMITS);
        timeouts.opened(true);
        timeouts.bytes_received();
        assert_eq!(awaited(&timeouts), Some((TimedOut::Idle, LIMITS.idle)));
    }

    #[test]
    fn only_a_request_cut_short_makes_the_close_linger() {
        let timeouts = Timeouts::new(LIMITS);
        assert!(!timeouts.linger());
        drop(timeouts.begin_request());
        assert!(!timeouts.linger());
        timeouts.leave_body_unread();
        assert!(timeouts.linger());
        assert_eq!(awaited(&timeouts), Some((TimedOut::Close, CLOSING)));
        timeouts.close();
        assert!(!timeouts.linger());
    }

    #[tokio::test]
    async fn an_instant_that_moves_nearer_is_met() {
        let timeouts = Timeouts::new(Limits { head: Duration::from_millis(1), ..LIMITS });
        drop(timeouts.begin_request());
        let mut expired = pin!(timeouts.expired());
        assert!(futures_util::poll!(expired.as_mut()).is_pending());
        timeouts.bytes_received();
        assert_eq!(expired.await, TimedOut::Head);
    }
}
