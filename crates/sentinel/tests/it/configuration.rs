//! Settings as their writers meet them.

use std::time::Duration;

use hyperfleet_core::Timestamp;
use hyperfleet_sentinel::config::Config;
use hyperfleet_sentinel::custom::{MessageData, MessageDecision};
use hyperfleet_sentinel::decide::Reason;
use hyperfleet_service::settings::Sources;
use serde_json::json;

use crate::fixtures::{Cluster, at};

fn load(variables: &[(&str, &str)]) -> Result<Config, String> {
    let environment =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Config::load(&Sources { environment, ..Sources::default() }).map_err(|faults| faults.to_string())
}

#[test]
fn variables_of_the_go_sentinel_are_read_and_overridden_by_ours() {
    let config = load(&[
        ("HYPERFLEET_API_BASE_URL", "http://api:1"),
        ("HYPERFLEET_BROKER_TOPIC", "theirs"),
        ("HYPERFLEET_CLIENTS_BROKER_TOPIC", "ours"),
        ("HYPERFLEET_RESOURCE_TYPE", "nodepools"),
        ("HYPERFLEET_POLL_INTERVAL", "7s"),
        ("BROKER_RABBITMQ_URL", "amqp://rabbit"),
    ])
    .unwrap();
    assert_eq!(config.api.base_url, "http://api:1");
    assert_eq!(config.work.topic.as_deref(), Some("ours"));
    assert_eq!(config.work.kinds, Some(vec!["nodepools".to_owned()]));
    assert_eq!(config.work.poll_interval, Some(Duration::from_secs(7)));
    assert_eq!(config.broker.rabbitmq.url, "amqp://rabbit");
}

#[test]
fn resource_type_is_one_kind_a_list_or_all() {
    for (given, kinds) in [
        ("all", None),
        ("clusters", Some(1)),
        ("[clusters, nodepools, clusters]", Some(2)),
        ("[clusters, all]", None),
    ] {
        let config = load(&[("HYPERFLEET_RESOURCE_TYPE", given)]).unwrap();
        assert_eq!(config.work.kinds.map(|kinds| kinds.len()), kinds, "{given}");
    }
    for given in ["[]", "a/b", "[1]", "{}"] {
        assert!(
            load(&[("HYPERFLEET_RESOURCE_TYPE", given)]).unwrap_err().contains("resource_type"),
            "{given}"
        );
    }
}

#[test]
fn a_configured_decision_reads_resource_conditions_and_clock() {
    let decision = MessageDecision::read(&json!({
        "params": {"done": "condition('Reconciled').status == 'True'", "old": "now - timestamp(resource.updated_time) > duration('10s')"},
        "result": "!done && old",
    }))
    .unwrap();
    let cluster = Cluster::new("a", at(0.0));
    let holds = |cluster: &Cluster, now: Timestamp| decision.holds(&cluster.json(), now);
    assert_eq!(holds(&cluster, at(9.0)), Ok(false));
    assert_eq!(holds(&cluster, at(11.0)), Ok(true));
    assert_eq!(holds(&cluster.all_report(true, at(1.0)), at(11.0)), Ok(false));
    assert_eq!(MessageDecision::read(&json!({"parms": {}, "result": "tru"})).unwrap_err().len(), 2);
}

#[test]
fn message_data_overrides_the_default_data() {
    let own = MessageData::read(&json!({"id": "'x-' + resource.id", "more": {"why": "reason"}})).unwrap();
    let cluster = Cluster::new("a", at(0.0));
    let mut data = json!({"id": "a", "generation": 1});
    own.merge(&mut data, &cluster.json(), Reason::Stale).unwrap();
    assert_eq!(data, json!({"id": "x-a", "generation": 1, "more": {"why": "stale"}}));
    let failing = MessageData::read(&json!({"x": "resource.missing"})).unwrap();
    assert!(failing.merge(&mut data, &cluster.json(), Reason::Stale).is_err());
    assert_eq!(MessageData::read(&json!({"a": 1, "b": "resorce", "c": {"d": "("}})).unwrap_err().len(), 3);
}
