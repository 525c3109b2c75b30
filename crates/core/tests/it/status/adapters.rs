//! The conditions per adapter, and the order of all conditions.

use hyperfleet_core::ResourceId;
use serde_json::Value;

use super::condition;
use super::said::said;
use super::stage::{Stage, kind, rulebook};

const DNS: &str = "DnsSuccessful";

fn single() -> (Stage, ResourceId) {
    let mut stage = Stage::new(&[kind("Single", &["dns"])]);
    let id = stage.create("Single", None, 0);
    (stage, id)
}

#[test]
fn a_type_is_named_after_its_adapter() {
    for (adapter, expected) in [
        ("dns", "DnsSuccessful"),
        ("my-adapter", "MyAdapterSuccessful"),
        ("my-2nd-adapter", "My2ndAdapterSuccessful"),
        ("myAdapter", "MyAdapterSuccessful"),
        ("a--b", "ABSuccessful"),
        ("éclair-x", "ÉclairXSuccessful"),
        ("my_adapter", "My_adapterSuccessful"),
    ] {
        let mut stage = Stage::new(&[kind("Single", &[adapter])]);
        let id = stage.create("Single", None, 0);
        stage.tell(id, said(adapter, 1, 10));
        assert_eq!(stage.types(id)[2..], [expected], "{adapter}");
    }
}

#[test]
fn it_says_what_its_adapter_says_of_available() {
    let (mut stage, id) = single();
    assert_eq!(stage.condition(id, DNS), Value::Null, "nothing was said");
    stage.tell(id, said("dns", 1, 10));
    assert_eq!(stage.condition(id, DNS), condition(DNS, "True", ("", ""), 1, [0, 10, 10]));
    stage.tell(id, said("dns", 1, 20).because("Fine", "it resolves"));
    assert_eq!(stage.condition(id, DNS), condition(DNS, "True", ("Fine", "it resolves"), 1, [0, 20, 10]));
    stage.tell(id, said("dns", 1, 30).available("False").because("NoQuota", "ask for more"));
    assert_eq!(
        stage.condition(id, DNS),
        condition(DNS, "False", ("NoQuota", "ask for more"), 1, [0, 30, 30])
    );
}

#[test]
fn it_speaks_of_the_generation_of_its_report() {
    let (mut stage, id) = single();
    stage.tell(id, said("dns", 1, 10));
    stage.change(id, 20);
    assert_eq!(stage.condition(id, DNS), condition(DNS, "True", ("", ""), 1, [0, 10, 10]));
    stage.tell(id, said("dns", 2, 30));
    assert_eq!(stage.condition(id, DNS), condition(DNS, "True", ("", ""), 2, [0, 30, 10]));
}

#[test]
fn it_is_made_when_the_resource_last_changed_before() {
    let (mut stage, id) = single();
    stage.label(id, 5);
    stage.tell(id, said("dns", 1, 3));
    assert_eq!(stage.condition(id, DNS), condition(DNS, "True", ("", ""), 1, [5, 3, 3]));
}

#[test]
fn an_adapter_that_cannot_tell_has_none_unless_it_has_finalized() {
    let (mut stage, id) = single();
    stage.tell(id, said("dns", 1, 10).available("Unknown").because("Lost", "no answer"));
    assert_eq!(stage.condition(id, DNS), Value::Null);

    let mut stage = Stage::new(&[kind("Pair", &["dns", "cert"])]);
    let id = stage.create("Pair", None, 0);
    stage.tell(id, said("dns", 1, 10));
    stage.delete(id, 20).unwrap();
    stage.tell(id, said("dns", 2, 30).available("Unknown").because("Lost", "no answer").finalized());
    assert_eq!(stage.condition(id, DNS), condition(DNS, "False", ("Lost", "no answer"), 2, [0, 30, 30]));
}

#[test]
fn conditions_stand_in_configured_order_and_only_of_required_adapters() {
    let mut stage = Stage::new(&[kind("Triple", &["zeta", "my-dns", "alpha"])]);
    let id = stage.create("Triple", None, 0);
    assert_eq!(stage.types(id), ["Reconciled", "LastKnownReconciled"]);
    for (adapter, second) in [("alpha", 10), ("audit", 11), ("zeta", 12)] {
        stage.tell(id, said(adapter, 1, second));
    }
    let types = ["Reconciled", "LastKnownReconciled", "ZetaSuccessful", "AlphaSuccessful"];
    assert_eq!(stage.types(id), types);
    stage.tell(id, said("my-dns", 1, 13));
    let types = ["Reconciled", "LastKnownReconciled", "ZetaSuccessful", "MyDnsSuccessful", "AlphaSuccessful"];
    assert_eq!(stage.types(id), types);
}

#[test]
fn an_adapter_that_is_not_required_any_more_has_none_and_starts_anew_when_it_is_again() {
    let (mut stage, id) = single();
    stage.tell(id, said("dns", 1, 10));
    stage.reconfigure(rulebook(&[kind("Single", &[])]));
    stage.recompute(&[id], 20);
    assert_eq!(stage.types(id), ["Reconciled", "LastKnownReconciled"]);
    stage.label(id, 30);
    stage.reconfigure(rulebook(&[kind("Single", &["dns"])]));
    stage.recompute(&[id], 40);
    assert_eq!(stage.condition(id, DNS), condition(DNS, "True", ("", ""), 1, [30, 10, 10]));
}
