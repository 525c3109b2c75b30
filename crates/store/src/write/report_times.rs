//! The times that a confirming report moves. A healthy fleet sends hardly anything else, so they are written where they
//! cost least.

use hyperfleet_core::rules::WorkingSet;
use hyperfleet_core::{
    Catalog, IdMap, Report, Resource, ResourceId, Timestamp, json_text, last_updated_times,
};

use super::Differences;
use crate::failure::Failure;

/// The report times that a batch moved. The time of a required adapter is kept beside the conditions, whose times the
/// same report moves, and its row in `reports` is not written. A reader of that row takes the later of both times.
pub(crate) struct ReportTimes<'a> {
    /// Those kept beside the conditions of a resource: adapters and times as JSON.
    beside_conditions: IdMap<String>,
    /// Those to write into the rows of `reports`.
    pub(crate) for_report_rows: Vec<(ResourceId, &'a Report)>,
}

impl<'a> ReportTimes<'a> {
    pub(crate) fn from_batch(catalog: &Catalog, set: &WorkingSet, differences: &Differences<'a>) -> Self {
        let mut beside_conditions: IdMap<String> =
            differences.confirmed.iter().map(|confirmed| (confirmed.id, String::new())).collect();
        let mut for_report_rows = Vec::new();
        for (id, report) in &differences.confirmed_reports {
            // There may be any number of adapters that are not required, so their times stay in their rows.
            let is_required = set
                .kind_of(*id)
                .and_then(|kind| catalog.get(kind))
                .is_some_and(|entity| entity.required_adapters.iter().any(|name| **name == *report.adapter));
            match beside_conditions.get_mut(id).filter(|_| is_required) {
                Some(members) => {
                    members.push(if members.is_empty() { '{' } else { ',' });
                    members.push_str(&json_text(&&*report.adapter));
                    members.push(':');
                    members.push_str(&report.last_report_time.micros().to_string());
                }
                None => for_report_rows.push((*id, *report)),
            }
        }
        beside_conditions.retain(|_, members| !members.is_empty());
        beside_conditions.values_mut().for_each(|members| members.push('}'));
        Self { beside_conditions, for_report_rows }
    }

    /// The times to keep beside the conditions of a resource.
    pub(crate) fn of(&self, id: ResourceId) -> Option<&str> {
        self.beside_conditions.get(&id).map(String::as_str)
    }
}

const MINUTE: i64 = 60_000_000;

/// The column `updated_after`: since when conditions have been confirmed, to the minute. The exact time moves with every
/// report, and an index on it would be written as often; this one moves once a minute at most. It is at most a minute
/// before the oldest of `times`. Each resource has its own second of the minute, so that the
/// times of a whole fleet do not move at once.
pub(crate) fn updated_after(id: ResourceId, times: &[Timestamp]) -> Option<Timestamp> {
    let oldest = times.iter().min()?.micros();
    let second = i64::from(id.uuid().as_bytes()[15]) * (MINUTE / 256);
    Some(Timestamp::from_micros((oldest - second).div_euclid(MINUTE) * MINUTE + second))
}

/// The `updated_after` of a resource.
pub(crate) fn updated_after_of(resource: &Resource) -> Result<Option<Timestamp>, Failure> {
    Ok(updated_after(resource.id, &last_updated_times(&resource.conditions)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updated_after_is_never_after_the_oldest_time_and_at_most_a_minute_before() {
        for step in 0..500 {
            let (id, oldest) = (ResourceId::generate(), 1_767_225_600_000_000 + step * 777_777);
            let times = [Timestamp::from_micros(oldest + 5), Timestamp::from_micros(oldest)];
            let confirmed = updated_after(id, &times).unwrap().micros();
            assert!(confirmed <= oldest && oldest - confirmed < MINUTE, "{oldest} became {confirmed}");
        }
        assert_eq!(updated_after(ResourceId::generate(), &[]), None);
    }
}
