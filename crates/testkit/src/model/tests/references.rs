//! References: what they may point at, and how they stop and survive deletions.

use serde_json::json;

use super::super::{Action, Available, Expected, Kinds, Operation, Slot, Target};
use super::{Scene, finalized};

fn refer(scene: &mut Scene, from: Slot, to: Option<Slot>, second: i64) -> Expected {
    let to = to.map(|slot| ("home".to_owned(), slot, scene.0.id(slot).unwrap().to_owned()));
    scene.act(from, Action::PatchReference { to }, second)
}

#[test]
fn a_reference_is_a_change_of_generation_and_shown_with_kind_id_and_href() {
    let mut scene = Scene::new();
    let free = scene.create("Free", None, 0);
    let pair = scene.create("Pair", None, 1);
    assert_eq!(refer(&mut scene, pair, Some(free), 2).status, 200);
    let view = scene.0.resource(pair).unwrap();
    let home = json!({"home": [{"kind": "Free", "id": "id-0", "href": "/api/hyperfleet/v1/frees/id-0"}]});
    assert_eq!((view.generation, &view.document["references"]), (2, &home));
    assert_eq!(refer(&mut scene, pair, Some(free), 3).changed, []);
    assert_eq!(refer(&mut scene, pair, None, 4).changed, [pair]);
    assert_eq!(scene.0.resource(pair).unwrap().document.get("references"), None);
}

#[test]
fn a_reference_to_what_is_gone_is_400_and_to_what_is_going_409() {
    let mut scene = Scene::new();
    let free = scene.create("Free", None, 0);
    let pair = scene.create("Pair", None, 1);
    let stem = scene.create("Stem", Some(free), 2);
    scene.delete(free, 3);
    assert_eq!(refer(&mut scene, pair, Some(free), 4).status, 409);
    scene.report(stem, finalized("a", 2, 5, Available::True));
    assert_eq!(refer(&mut scene, pair, Some(free), 6).status, 400);
}

#[test]
fn an_active_referrer_stops_a_deletion_until_it_is_deleted_itself() {
    let mut scene = Scene::new();
    let free = scene.create("Free", None, 0);
    let pair = scene.create("Pair", None, 1);
    refer(&mut scene, pair, Some(free), 2);
    assert_eq!(scene.delete(free, 3).status, 409);
    assert_eq!(scene.delete(pair, 4).status, 202);
    assert_eq!(scene.delete(free, 5).status, 202);
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
