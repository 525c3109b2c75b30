//! Deletion: what it reaches, what stops it, when it is done, and force-delete.

use serde_json::json;

use super::super::{Action, Available, Kinds, Learned, Model, Operation, Phase, Slot, Target};
use super::{Fixture, at, finalized, text};

fn force() -> Action {
    Action::ForceDelete { reason: "stuck".into() }
}

/// A `Pair` at 0 with two `Limb`s, one of which has a `Twig`, and a `Leaf`.
fn tree() -> (Fixture, [Slot; 5]) {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 0);
    let limb = fixture.create("Limb", Some(pair), 1);
    let bare = fixture.create("Limb", Some(pair), 2);
    let twig = fixture.create("Twig", Some(limb), 3);
    let leaf = fixture.create("Leaf", Some(pair), 4);
    (fixture, [pair, limb, bare, twig, leaf])
}

#[test]
fn a_deletion_marks_the_whole_tree_at_one_time_and_removes_at_once_what_waits_for_nothing() {
    let (mut fixture, [pair, limb, bare, twig, leaf]) = tree();
    let expected = fixture.delete(pair, 10);
    assert_eq!((expected.status, expected.removed), (202, vec![leaf]));
    assert_eq!(expected.changed, [pair, limb, bare, twig]);
    for slot in [pair, limb, bare, twig] {
        let view = fixture.0.resource(slot).unwrap();
        assert_eq!((view.generation, view.phase), (2, Phase::Finalizing(at(10))));
        assert_eq!(view.document["deleted_time"], view.document["updated_time"]);
    }
}

#[test]
fn a_second_delete_changes_nothing_and_answers_with_the_resource() {
    let (mut fixture, [pair, ..]) = tree();
    let first = fixture.delete(pair, 10);
    let again = fixture.delete(pair, 20);
    assert_eq!((again.status, again.changed), (202, vec![]));
    assert_eq!(again.answer, first.answer);
}

#[test]
fn a_deletion_is_never_dated_before_the_last_update() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    fixture.patch(pair, 50);
    fixture.delete(pair, 40);
    assert_eq!(fixture.0.phase(pair), Some(Phase::Finalizing(at(50))));
}

#[test]
fn the_last_report_below_removes_the_waiting_owners_up_to_the_root() {
    let (mut fixture, [pair, limb, bare, twig, _]) = tree();
    fixture.delete(pair, 10);
    fixture.report(pair, finalized("a", 2, 20, Available::True));
    fixture.report(pair, finalized("b", 2, 20, Available::True));
    fixture.report(limb, finalized("a", 2, 20, Available::True));
    assert_eq!(fixture.report(bare, finalized("a", 2, 20, Available::True)).removed, [bare]);
    let last = fixture.report(twig, finalized("a", 2, 20, Available::False));
    assert_eq!((last.status, last.removed), (201, vec![twig, limb, pair]));
    assert_eq!(last.answer.unwrap()["adapter"], "a");
    assert_eq!(fixture.0.resources(), []);
}

#[test]
fn an_owner_that_still_waits_for_an_adapter_stays_and_goes_with_that_report() {
    let (mut fixture, [pair, limb, bare, twig, _]) = tree();
    fixture.delete(pair, 10);
    fixture.report(pair, finalized("a", 2, 20, Available::True));
    for slot in [twig, limb, bare] {
        assert_eq!(fixture.report(slot, finalized("a", 2, 20, Available::True)).removed, [slot]);
    }
    assert!(fixture.0.is_living(pair));
    assert_eq!(fixture.report(pair, finalized("b", 2, 20, Available::True)).removed, [pair]);
}

#[test]
fn an_adapter_can_take_its_finalized_back_while_the_resource_waits() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 0);
    fixture.delete(pair, 10);
    fixture.report(pair, finalized("a", 2, 20, Available::True));
    fixture.says(pair, "a", 2, 21, Available::True);
    assert_eq!(fixture.report(pair, finalized("b", 2, 22, Available::True)).removed, []);
    assert_eq!(fixture.report(pair, finalized("a", 2, 23, Available::True)).removed, [pair]);
}

#[test]
fn a_kind_without_adapters_waits_for_its_children_and_goes_with_the_last() {
    let mut fixture = Fixture::new();
    let free = fixture.create("Free", None, 0);
    let stems = [fixture.create("Stem", Some(free), 1), fixture.create("Stem", Some(free), 2)];
    assert_eq!(fixture.delete(free, 10).removed, []);
    let message = "Deletion in progress: waiting for child resources: Stem (2)";
    assert_eq!(fixture.condition(free, "Reconciled")["message"], message);
    assert_eq!(fixture.condition(free, "Reconciled")["last_transition_time"], text(10));
    fixture.report(stems[0], finalized("a", 2, 20, Available::True));
    let last = fixture.report(stems[1], finalized("a", 2, 21, Available::True));
    assert_eq!(last.removed, [stems[1], free]);
}

#[test]
fn a_child_that_goes_changes_its_waiting_owner_and_leaves_an_active_one_alone() {
    let mut fixture = Fixture::new();
    let free = fixture.create("Free", None, 0);
    let stems = [0, 1, 2].map(|second| fixture.create("Stem", Some(free), second));
    fixture.delete(stems[0], 10);
    assert_eq!(fixture.report(stems[0], finalized("a", 2, 20, Available::True)).changed, []);
    fixture.delete(free, 30);
    assert_eq!(fixture.report(stems[1], finalized("a", 2, 40, Available::True)).changed, [free]);
}

#[test]
fn an_active_restricted_child_deep_below_stops_everything() {
    let mut model = Model::new(Kinds::three_levels());
    for kind in ["Fleet", "Zone", "Lock"] {
        let request = model.resolve(&Operation::create(kind)).unwrap();
        assert_eq!(model.apply(&request, &Learned::nothing()).status, 201);
    }
    let mut delete = |slot| {
        let request = model.resolve(&Operation::Delete(Target::Slot(Slot(slot)))).unwrap();
        let expected = model.apply(&request, &Learned::nothing());
        (expected.status, expected.changed.len())
    };
    assert_eq!([delete(0), delete(1)], [(409, 0), (409, 0)]);
    assert_eq!([delete(2), delete(0)], [(202, 1), (202, 2)]);
}

#[test]
fn an_active_restricted_child_stops_a_deletion_and_a_finalizing_one_does_not() {
    let (mut fixture, [pair, ..]) = tree();
    let guard = fixture.create("Guard", Some(pair), 5);
    let before = fixture.0.resources();
    assert_eq!(fixture.delete(pair, 10).status, 409);
    assert_eq!(fixture.0.resources(), before);
    assert_eq!(fixture.delete(guard, 11).status, 202);
    assert_eq!(fixture.delete(pair, 12).status, 202);
    assert_eq!(fixture.0.phase(guard), Some(Phase::Finalizing(at(11))));
}

#[test]
fn a_finalizing_resource_refuses_changes_and_children_and_frees_its_name() {
    let (mut fixture, [pair, limb, ..]) = tree();
    assert_eq!(fixture.try_create("Pair", None, "n-0", 5).status, 409);
    assert_eq!(fixture.try_create("Limb", Some(pair), "n-1", 5).status, 409);
    fixture.delete(pair, 10);
    assert_eq!(fixture.act(pair, Action::PatchSpec { size: 1 }, 11).status, 409);
    assert_eq!(fixture.act(limb, Action::PatchLabels { tier: "x".into() }, 11).status, 409);
    assert_eq!(fixture.try_create("Leaf", Some(pair), "fresh", 11).status, 409);
    assert_eq!(fixture.try_create("Pair", None, "n-0", 12).status, 201);
}

#[test]
fn a_removed_resource_is_404_for_every_request() {
    let mut fixture = Fixture::new();
    let free = fixture.create("Free", None, 0);
    assert_eq!(fixture.delete(free, 1).status, 202);
    assert_eq!(fixture.delete(free, 2).status, 404);
    assert_eq!(fixture.act(free, Action::PatchSpec { size: 2 }, 2).status, 404);
    assert_eq!(fixture.act(free, force(), 2).status, 404);
    assert_eq!(fixture.try_create("Stem", Some(free), "fresh", 2).status, 404);
}

#[test]
fn force_delete_takes_everything_below_and_completes_the_waiting_owner() {
    let (mut fixture, [pair, limb, bare, twig, leaf]) = tree();
    assert_eq!(fixture.act(limb, force(), 5).status, 409);
    fixture.delete(pair, 10);
    assert_eq!(fixture.act(limb, Action::ForceDelete { reason: String::new() }, 11).status, 400);
    let forced = fixture.act(limb, force(), 12);
    assert_eq!((forced.status, forced.removed), (204, vec![twig, limb]));
    fixture.report(pair, finalized("a", 2, 20, Available::True));
    fixture.report(pair, finalized("b", 2, 20, Available::True));
    assert_eq!(fixture.act(bare, force(), 21).removed, [bare, pair]);
    assert_eq!([pair, limb, bare, twig, leaf].map(|slot| fixture.0.is_living(slot)), [false; 5]);
}

#[test]
fn labels_move_the_time_but_not_the_generation_and_an_empty_change_moves_nothing() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 0);
    let label = || Action::PatchLabels { tier: "gold".into() };
    let labelled = fixture.act(pair, label(), 10);
    let answer = labelled.answer.unwrap();
    assert_eq!((labelled.status, labelled.changed), (200, vec![pair]));
    assert_eq!((&answer["generation"], &answer["updated_time"]), (&json!(1), &json!(text(10))));
    assert_eq!(fixture.condition(pair, "Reconciled")["last_updated_time"], text(10));
    for same in [label(), Action::PatchSpec { size: 1 }] {
        let again = fixture.act(pair, same, 20);
        assert_eq!((again.status, again.changed), (200, vec![]));
        assert_eq!(again.answer.as_ref(), Some(&answer));
    }
}
