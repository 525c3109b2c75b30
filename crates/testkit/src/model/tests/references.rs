//! References: what they may point at, and how they stop and survive deletions.

use serde_json::json;

use super::super::{Action, Available, Expected, Kinds, Operation, Slot, Target};
use super::{Fixture, finalized};

fn refer(fixture: &mut Fixture, from: Slot, to: Option<Slot>, second: i64) -> Expected {
    let to = to.map(|slot| ("home".to_owned(), slot, fixture.0.id(slot).unwrap().to_owned()));
    fixture.act(from, Action::PatchReference { to }, second)
}

#[test]
fn a_reference_is_a_change_of_generation_and_shown_with_kind_id_and_href() {
    let mut fixture = Fixture::new();
    let free = fixture.create("Free", None, 0);
    let pair = fixture.create("Pair", None, 1);
    assert_eq!(refer(&mut fixture, pair, Some(free), 2).status, 200);
    let view = fixture.0.resource(pair).unwrap();
    let home = json!({"home": [{"kind": "Free", "id": "id-0", "href": "/api/hyperfleet/v1/frees/id-0"}]});
    assert_eq!((view.generation, &view.document["references"]), (2, &home));
    assert_eq!(refer(&mut fixture, pair, Some(free), 3).changed, []);
    assert_eq!(refer(&mut fixture, pair, None, 4).changed, [pair]);
    assert_eq!(fixture.0.resource(pair).unwrap().document.get("references"), None);
}

#[test]
fn a_reference_to_a_removed_resource_is_400_and_to_a_finalizing_one_409() {
    let mut fixture = Fixture::new();
    let free = fixture.create("Free", None, 0);
    let pair = fixture.create("Pair", None, 1);
    let stem = fixture.create("Stem", Some(free), 2);
    fixture.delete(free, 3);
    assert_eq!(refer(&mut fixture, pair, Some(free), 4).status, 409);
    fixture.report(stem, finalized("a", 2, 5, Available::True));
    assert_eq!(refer(&mut fixture, pair, Some(free), 6).status, 400);
}

#[test]
fn an_active_referrer_stops_a_deletion_until_it_is_deleted_itself() {
    let mut fixture = Fixture::new();
    let free = fixture.create("Free", None, 0);
    let pair = fixture.create("Pair", None, 1);
    refer(&mut fixture, pair, Some(free), 2);
    assert_eq!(fixture.delete(free, 3).status, 409);
    assert_eq!(fixture.delete(pair, 4).status, 202);
    assert_eq!(fixture.delete(free, 5).status, 202);
}

#[test]
fn a_referrer_inside_the_tree_that_goes_is_no_obstacle() {
    let mut model = super::Model::new(Kinds::three_levels());
    for kind in ["Fleet", "Zone", "Rack"] {
        let request = model.resolve(&Operation::create(kind)).unwrap();
        assert_eq!(model.apply(&request, &super::Learned::nothing()).status, 201);
    }
    let host = Operation::Create {
        kind: "Host".into(),
        parent: Target::Active(0),
        name: super::super::NameChoice::Fresh,
        reference: Some(Target::Active(0)),
    };
    let request = model.resolve(&host).unwrap();
    assert_eq!(request.body().unwrap()["references"], json!({"rack": [{"id": "id-2"}]}));
    assert_eq!(request.path(), "/api/hyperfleet/v1/zones/id-1/hosts");
    assert_eq!(request.nested_path(), "/api/hyperfleet/v1/fleets/id-0/zones/id-1/hosts");
    assert_eq!(model.apply(&request, &super::Learned::nothing()).status, 201);
    let delete = |slot| model.predict(&model.resolve(&Operation::Delete(Target::Slot(Slot(slot)))).unwrap());
    assert_eq!([delete(2), delete(1), delete(0)], [409, 202, 202]);
}
