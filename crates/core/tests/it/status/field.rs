//! The contract of the Go implementation in the field, as far as rules keep it: a PATCH replaces whole members, and
//! a change of labels is a new generation. The documented contract beside it.

use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::{Contract, Intent, Operation, Patch, PatchBody, ResourceId};
use serde_json::{Value, json};

use super::fixture::{Fixture, kind, rulebook, target};
use super::test_report::test_report;

/// A resource with a spec of two members, a label and a reference.
fn prepared(contract: Contract) -> (Fixture, ResourceId, ResourceId) {
    let mut thing = kind("Thing", &["dns"]);
    let refers = json!([
        {"ref_type": "home", "target_kind": "NameScope"},
        {"ref_type": "work", "target_kind": "NameScope"},
    ]);
    thing.references = serde_json::from_value(refers).unwrap();
    let mut fixture = Fixture::by(Rulebook { contract, ..rulebook(&[kind("NameScope", &[]), thing]) });
    let place = fixture.create("NameScope", None, 0);
    let id = fixture.create_with("Thing", None, 0, &json!({"home": [place]}));
    (fixture, id, place)
}

fn desired_state(fixture: &Fixture, id: ResourceId) -> [Value; 3] {
    let row = fixture.row(id);
    [&row.spec, &row.labels, &row.references].map(|member| member.parse().unwrap())
}

#[test]
fn a_patch_replaces_in_the_field_and_merges_by_the_documents() {
    for (contract, spec, labels, references) in [
        (Contract::Go0_2, json!({"size": 2, "deep": {"x": null}}), json!({"env": "prod"}), &["work"][..]),
        (
            Contract::Documented,
            json!({"size": 2, "zone": "a", "deep": {}}),
            json!({"tier": "gold", "env": "prod"}),
            &["home", "work"][..],
        ),
    ] {
        let (mut fixture, id, place) = prepared(contract);
        let body = json!({
            "spec": {"size": 2, "deep": {"x": null}},
            "labels": {"env": "prod"},
            "references": {"work": [{"id": place}]},
        });
        fixture.merge(id, 10, &body).unwrap();
        let mut expected = json!({});
        references.iter().for_each(|ref_type| expected[*ref_type] = json!([place]));
        assert_eq!(desired_state(&fixture, id), [spec, labels, expected]);
        assert_eq!(fixture.row(id).generation, 2);
    }
}

#[test]
fn a_member_that_is_not_sent_stays_by_either_contract() {
    for contract in [Contract::Go0_2, Contract::Documented] {
        let (mut fixture, id, place) = prepared(contract);
        fixture.merge(id, 10, &json!({"spec": {"size": 2, "zone": "a"}})).unwrap();
        let expected = [json!({"size": 2, "zone": "a"}), json!({"tier": "gold"}), json!({"home": [place]})];
        assert_eq!(desired_state(&fixture, id), expected);
    }
}

#[test]
fn a_null_empties_labels_and_references_and_is_no_spec_by_either_contract() {
    for contract in [Contract::Go0_2, Contract::Documented] {
        let (mut fixture, id, _) = prepared(contract);
        let error = fixture.merge(id, 10, &json!({"spec": null})).unwrap_err();
        assert_eq!(error.code(), "HYPERFLEET-VAL-002");
        fixture.merge(id, 20, &json!({"labels": null, "references": null})).unwrap();
        assert_eq!(desired_state(&fixture, id)[1..], [json!({}), json!({})]);
    }
}

#[test]
fn a_json_patch_changes_what_it_names_by_either_contract() {
    for contract in [Contract::Go0_2, Contract::Documented] {
        let (mut fixture, id, place) = prepared(contract);
        let operations = json!([{"op": "add", "path": "/spec/size", "value": 5}]);
        let body = PatchBody::Json(Operation::parse_all(operations.as_array().unwrap()).unwrap());
        fixture
            .run(
                Intent::Patch(Patch { target: target(id), expected: None, body: body.into(), checked: None }),
                10,
            )
            .unwrap();
        let expected = [json!({"size": 5, "zone": "a"}), json!({"tier": "gold"}), json!({"home": [place]})];
        assert_eq!(desired_state(&fixture, id), expected);
    }
}

#[test]
fn a_label_is_a_new_generation_in_the_field_and_not_by_the_documents() {
    for (contract, generation, status) in [(Contract::Go0_2, 2, "False"), (Contract::Documented, 1, "True")] {
        let (mut fixture, id, _) = prepared(contract);
        fixture.tell(id, test_report("dns", 1, 10));
        fixture.merge(id, 20, &json!({"labels": {"tier": "silver"}})).unwrap();
        assert_eq!(fixture.row(id).generation, generation);
        assert_eq!(fixture.condition(id, "Reconciled")["status"], status);
        assert_eq!(fixture.condition(id, "Reconciled")["observed_generation"], generation);
    }
}

#[test]
fn a_patch_that_changes_nothing_changes_nothing_by_either_contract() {
    for contract in [Contract::Go0_2, Contract::Documented] {
        let (mut fixture, id, place) = prepared(contract);
        let contents = fixture.contents();
        let body = json!({
            "spec": {"zone": "a", "size": 1.0},
            "labels": {"tier": "gold"},
            "references": {"home": [{"kind": "NameScope", "id": place}]},
        });
        fixture.merge(id, 10, &body).unwrap();
        assert_eq!(fixture.contents(), contents);
    }
}
