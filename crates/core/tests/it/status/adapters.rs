//! The conditions per adapter, and the order of all conditions.

use hyperfleet_core::ResourceId;
use serde_json::Value;

use super::condition;
use super::fixture::{Fixture, kind, rulebook};
use super::test_report::test_report;

const DNS: &str = "DnsSuccessful";

fn single() -> (Fixture, ResourceId) {
    let mut fixture = Fixture::new(&[kind("Single", &["dns"])]);
    let id = fixture.create("Single", None, 0);
    (fixture, id)
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
        let mut fixture = Fixture::new(&[kind("Single", &[adapter])]);
        let id = fixture.create("Single", None, 0);
        fixture.tell(id, test_report(adapter, 1, 10));
        assert_eq!(fixture.types(id)[2..], [expected], "{adapter}");
    }
}

#[test]
fn the_condition_repeats_available_of_its_adapter() {
    let (mut fixture, id) = single();
    assert_eq!(fixture.condition(id, DNS), Value::Null, "nothing was said");
    fixture.tell(id, test_report("dns", 1, 10));
    assert_eq!(fixture.condition(id, DNS), condition(DNS, "True", ("", ""), 1, [0, 10, 10]));
    fixture.tell(id, test_report("dns", 1, 20).because("Fine", "it resolves"));
    assert_eq!(fixture.condition(id, DNS), condition(DNS, "True", ("Fine", "it resolves"), 1, [0, 20, 10]));
    fixture.tell(id, test_report("dns", 1, 30).available("False").because("NoQuota", "ask for more"));
    assert_eq!(
        fixture.condition(id, DNS),
        condition(DNS, "False", ("NoQuota", "ask for more"), 1, [0, 30, 30])
    );
}

#[test]
fn an_adapter_condition_has_the_generation_of_its_report() {
    let (mut fixture, id) = single();
    fixture.tell(id, test_report("dns", 1, 10));
    fixture.change(id, 20);
    assert_eq!(fixture.condition(id, DNS), condition(DNS, "True", ("", ""), 1, [0, 10, 10]));
    fixture.tell(id, test_report("dns", 2, 30));
    assert_eq!(fixture.condition(id, DNS), condition(DNS, "True", ("", ""), 2, [0, 30, 10]));
}

#[test]
fn an_adapter_condition_is_created_at_the_last_update_of_the_resource() {
    let (mut fixture, id) = single();
    fixture.label(id, 5);
    fixture.tell(id, test_report("dns", 1, 3));
    assert_eq!(fixture.condition(id, DNS), condition(DNS, "True", ("", ""), 1, [5, 3, 3]));
}

#[test]
fn an_adapter_with_available_unknown_has_no_condition_unless_it_has_finalized() {
    let (mut fixture, id) = single();
    fixture.tell(id, test_report("dns", 1, 10).available("Unknown").because("Lost", "no answer"));
    assert_eq!(fixture.condition(id, DNS), Value::Null);

    let mut fixture = Fixture::new(&[kind("Pair", &["dns", "cert"])]);
    let id = fixture.create("Pair", None, 0);
    fixture.tell(id, test_report("dns", 1, 10));
    fixture.delete(id, 20).unwrap();
    fixture.tell(id, test_report("dns", 2, 30).available("Unknown").because("Lost", "no answer").finalized());
    assert_eq!(fixture.condition(id, DNS), condition(DNS, "False", ("Lost", "no answer"), 2, [0, 30, 30]));
}

#[test]
fn conditions_stand_in_configured_order_and_only_of_required_adapters() {
    let mut fixture = Fixture::new(&[kind("Triple", &["zeta", "my-dns", "alpha"])]);
    let id = fixture.create("Triple", None, 0);
    assert_eq!(fixture.types(id), ["Reconciled", "LastKnownReconciled"]);
    for (adapter, second) in [("alpha", 10), ("audit", 11), ("zeta", 12)] {
        fixture.tell(id, test_report(adapter, 1, second));
    }
    let types = ["Reconciled", "LastKnownReconciled", "ZetaSuccessful", "AlphaSuccessful"];
    assert_eq!(fixture.types(id), types);
    fixture.tell(id, test_report("my-dns", 1, 13));
    let types = ["Reconciled", "LastKnownReconciled", "ZetaSuccessful", "MyDnsSuccessful", "AlphaSuccessful"];
    assert_eq!(fixture.types(id), types);
}

#[test]
fn an_adapter_that_is_no_longer_required_has_no_condition_until_it_is_required_again() {
    let (mut fixture, id) = single();
    fixture.tell(id, test_report("dns", 1, 10));
    fixture.reconfigure(rulebook(&[kind("Single", &[])]));
    fixture.recompute(&[id], 20);
    assert_eq!(fixture.types(id), ["Reconciled", "LastKnownReconciled"]);
    fixture.label(id, 30);
    fixture.reconfigure(rulebook(&[kind("Single", &["dns"])]));
    fixture.recompute(&[id], 40);
    assert_eq!(fixture.condition(id, DNS), condition(DNS, "True", ("", ""), 1, [30, 10, 10]));
}
