//! How long a connection waits for its peer. Socket, request and response tell it what happens; it
//! answers with the one instant at which the connection has waited too long, and for what.
//!
//! Hyper's own head timeout counts a connection that rests between two requests like one that sends a
//! head byte by byte, so it cannot be short for the second without breaking the first. Here each has its
//! limit. Time that the service itself takes is never counted.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// What a connection that is being closed may still take, so that its last answer is not lost.
const CLOSING: Duration = Duration::from_secs(5);

/// How long each kind of waiting may last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) head: Duration,
    pub(super) write: Duration,
    pub(super) idle: Duration,
}

/// What the peer kept us waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// A whole request head.
    Head,
    /// The next request.
    Idle,
    /// That it takes what is written.
    Write,
    /// That it closes its side.
    Close,
}

#[derive(Debug)]
pub(super) struct Patience {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    since: Instant,
    running: usize,
    multiplexed: bool,
    /// Since when the peer takes nothing of what is written.
    stuck: Option<Instant>,
    body_left: bool,
}

/// What comes next while no request runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Fresh,
    Head,
    Idle,
    Closing,
}

impl Patience {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            stage: Stage::Fresh,
            since: now,
            running: 0,
            multiplexed: false,
            stuck: None,
            body_left: false,
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
    pub(super) fn heard(&self) {
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
    pub(super) fn begin_request(self: &Arc<Self>) -> Running {
        let mut state = self.state();
        state.running += 1;
        state.body_left = false;
        Running(Arc::clone(self))
    }

    /// What is written waits for the peer to take it, until [`Patience::unstuck`].
    pub(super) fn stuck(&self) {
        self.state().stuck = Some(Instant::now());
    }

    /// The peer took something.
    pub(super) fn unstuck(&self) {
        self.state().stuck = None;
    }

    /// The service answered without reading the whole body.
    pub(super) fn leave_body(&self) {
        let mut state = self.state();
        state.body_left = !state.multiplexed;
    }

    /// Whether a part of the body that the service did not read may still be on its way.
    pub(super) fn body_is_left(&self) -> bool {
        self.state().body_left
    }

    /// No further request is wanted: the connection drains, or it was idle for too long.
    pub(super) fn close(&self) {
        let mut state = self.state();
        if state.running == 0 {
            state.body_left = false;
        }
        if state.stage != Stage::Head {
            state.stage = Stage::Closing;
            state.since = Instant::now();
        }
    }

    /// Whether the peer is in the middle of sending something that nobody will read. Closing right away
    /// would make its system throw away our answer, so the rest is taken in for a moment.
    pub(super) fn linger(&self) -> bool {
        let mut state = self.state();
        let cut_short = state.body_left || state.stage == Stage::Head;
        if cut_short && state.stage != Stage::Closing {
            state.body_left = true;
            state.stage = Stage::Closing;
            state.since = Instant::now();
        }
        cut_short
    }

    fn due(&self) -> Option<(Instant, Waited)> {
        let state = self.state();
        let write = state.stuck.map(|since| (since + self.limits.write, Waited::Write));
        let read = (state.running == 0).then(|| {
            let (limit, waited) = match state.stage {
                Stage::Fresh | Stage::Head => (self.limits.head, Waited::Head),
                Stage::Idle => (self.limits.idle, Waited::Idle),
                Stage::Closing => (CLOSING, Waited::Close),
            };
            (state.since + limit, waited)
        });
        [write, read].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Completes when the peer kept the connection waiting for too long. Must be polled by the task that
    /// drives the connection, after it: what happens there then moves the instant without any signalling,
    /// and an instant that only moves on costs no timer operation.
    pub(super) async fn exhausted(&self) -> Waited {
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
pub(super) struct Running(Arc<Patience>);

impl Drop for Running {
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
    fn awaited(patience: &Patience) -> Option<(Waited, Duration)> {
        let (at, waited) = patience.due()?;
        let state = patience.state();
        let began = state.stuck.filter(|_| waited == Waited::Write).unwrap_or(state.since);
        Some((waited, at - began))
    }

    #[test]
    fn a_fresh_connection_and_a_begun_head_wait_briefly_but_an_idle_one_long() {
        let patience = Patience::new(LIMITS);
        assert_eq!(awaited(&patience), Some((Waited::Head, LIMITS.head)));
        drop(patience.begin_request());
        assert_eq!(awaited(&patience), Some((Waited::Idle, LIMITS.idle)));
        patience.heard();
        assert_eq!(awaited(&patience), Some((Waited::Head, LIMITS.head)));
    }

    #[test]
    fn further_bytes_of_a_head_do_not_renew_its_time() {
        let patience = Patience::new(LIMITS);
        let first = patience.due();
        patience.heard();
        patience.heard();
        assert_eq!(patience.due(), first);
    }

    #[test]
    fn a_running_request_is_never_the_peers_delay_but_a_stuck_write_is() {
        let patience = Patience::new(LIMITS);
        let running = patience.begin_request();
        patience.heard();
        assert_eq!(awaited(&patience), None);
        patience.stuck();
        assert_eq!(awaited(&patience), Some((Waited::Write, LIMITS.write)));
        patience.unstuck();
        assert_eq!(awaited(&patience), None);
        drop(running);
        assert_eq!(awaited(&patience), Some((Waited::Idle, LIMITS.idle)));
    }

    #[test]
    fn bytes_on_an_idle_multiplexed_connection_start_no_head() {
        let patience = Patience::new(LIMITS);
        patience.opened(true);
        patience.heard();
        assert_eq!(awaited(&patience), Some((Waited::Idle, LIMITS.idle)));
    }

    #[test]
    fn only_a_request_cut_short_makes_the_close_linger() {
        let patience = Patience::new(LIMITS);
        assert!(!patience.linger());
        drop(patience.begin_request());
        assert!(!patience.linger());
        patience.leave_body();
        assert!(patience.linger());
        assert_eq!(awaited(&patience), Some((Waited::Close, CLOSING)));
        patience.close();
        assert!(!patience.linger());
    }

    #[tokio::test]
    async fn an_instant_that_moves_nearer_is_met() {
        let patience = Patience::new(Limits { head: Duration::from_millis(1), ..LIMITS });
        drop(patience.begin_request());
        let mut exhausted = pin!(patience.exhausted());
        assert!(futures_util::poll!(exhausted.as_mut()).is_pending());
        patience.heard();
        assert_eq!(exhausted.await, Waited::Head);
    }
}
