//! Since when the conditions of a resource have been confirmed, to a minute. The exact time moves with every report,
//! and an index on it would be written as often; this one moves once a minute at most, and finds the same resources
//! with few others among them.

use hyperfleet_core::{Resource, ResourceId, Timestamp, last_updated_times};

use crate::failure::Failure;

const MINUTE: i64 = 60_000_000;

/// A moment at most a minute before the oldest of `times`. Each resource has its own second of the minute to move
/// on, so that a whole fleet does not do so at once.
pub(crate) fn confirmed_after(id: ResourceId, times: &[Timestamp]) -> Option<Timestamp> {
    let oldest = times.iter().min()?.micros();
    let second = i64::from(id.uuid().as_bytes()[15]) * (MINUTE / 256);
    Some(Timestamp::from_micros((oldest - second).div_euclid(MINUTE) * MINUTE + second))
}

/// The moment of a resource as its conditions stand.
pub(crate) fn of(resource: &Resource) -> Result<Option<Timestamp>, Failure> {
    Ok(confirmed_after(resource.id, &last_updated_times(&resource.conditions)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_is_never_after_the_oldest_time_and_never_more_than_a_minute_before() {
        for step in 0..500 {
            let (id, oldest) = (ResourceId::generate(), 1_767_225_600_000_000 + step * 777_777);
            let times = [Timestamp::from_micros(oldest + 5), Timestamp::from_micros(oldest)];
            let moment = confirmed_after(id, &times).unwrap().micros();
            assert!(moment <= oldest && oldest - moment < MINUTE, "{oldest} became {moment}");
        }
        assert_eq!(confirmed_after(ResourceId::generate(), &[]), None);
    }
}
