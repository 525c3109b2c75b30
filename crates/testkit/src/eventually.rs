//! Waiting for a state instead of for a time. The deadline is generous, because it passes only when something is
//! broken.

use std::time::{Duration, Instant};

/// Calls `probe` until it gives a value, and returns that.
///
/// # Panics
/// When `deadline` passes first; the message names `what` was waited for.
#[allow(clippy::panic, reason = "a state that never comes fails the test")]
pub async fn eventually<T>(what: &str, deadline: Duration, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = probe().await {
            return value;
        }
        if started.elapsed() > deadline {
            panic!("waited {deadline:?} in vain: {what}");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
