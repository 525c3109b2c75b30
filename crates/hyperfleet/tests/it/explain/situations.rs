//! Situations, each made by requests alone, with the blockers that the explanation must name and no others.

#![allow(clippy::panic, reason = "a situation that cannot be read fails the test")]

mod library;

use std::collections::BTreeMap;

use super::*;
use library::SITUATIONS;

/// A situation: its name, the requests that lead to it, the resource to explain, the phase, and the blockers in order as
/// `kind name: part of the detail`.
///
/// The requests: `make KIND NAME [in OWNER]`, `patch NAME`, `label NAME`, `delete NAME`, `force NAME`,
/// `refer NAME to NAME`, `report NAME ADAPTER GENERATION WORD`, and `discarded …` for a report that is not kept. The
/// words are those of [`conditions`].
type Situation = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

both_stores!(config = KINDS; each_situation_names_exactly_its_blockers);

/// The kinds with their plurals.
const PLURALS: [(&str, &str); 8] = [
    ("Cluster", "clusters"),
    ("NodePool", "nodepools"),
    ("Disk", "disks"),
    ("Vault", "vaults"),
    ("Zone", "zones"),
    ("Rack", "racks"),
    ("Host", "hosts"),
    ("Service", "services"),
];

/// What an adapter reports when it says this word.
fn conditions(word: &str) -> Value {
    let because =
        |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason});
    let is = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let [available, applied, health] = ["Available", "Applied", "Health"].map(|kind| is(kind, "True"));
    let (down, sick) = (is("Available", "False"), because("Health", "False", "OutOfMemory"));
    let draining = because("Finalized", "False", "Draining");
    match word {
        "ok" => json!([available, applied, health]),
        "down" => {
            let mut down = because("Available", "False", "QuotaExceeded");
            down["message"] = "no more addresses".into();
            json!([down, applied, health])
        }
        "sick" => json!([available, applied, sick]),
        "broken" => json!([down, applied, sick]),
        "unapplied" => json!([down, because("Applied", "False", "Denied"), health]),
        "unknown" => json!([because("Available", "Unknown", "StillLooking"), applied, health]),
        "working" => json!([down, applied, health, draining]),
        "ill" => json!([down, applied, sick, draining]),
        "done" => json!([down, applied, health, is("Finalized", "True")]),
        "done-unknown" => json!([is("Available", "Unknown"), applied, health, is("Finalized", "True")]),
        other => panic!("no such word: {other}"),
    }
}

/// What a situation has made, by the names it uses.
struct World<'a> {
    app: &'a App,
    made: BTreeMap<&'static str, Value>,
}

impl World<'_> {
    async fn step(&mut self, step: &'static str) {
        let app = self.app;
        match step.split_whitespace().collect::<Vec<_>>()[..] {
            ["make", kind, name] => self.make(kind, name, "").await,
            ["make", kind, name, "in", owner] => {
                let owner = href(&self.made[owner]).to_owned();
                self.make(kind, name, &owner).await;
            }
            ["make", "Host", host, "in", rack, "in", zone] => {
                self.make("Zone", zone, "").await;
                let owner = href(&self.made[zone]).to_owned();
                self.make("Rack", rack, &owner).await;
                let owner = href(&self.made[rack]).to_owned();
                self.make("Host", host, &owner).await;
            }
            ["patch", name] => {
                let patch = json!({"spec": {"step": unique("step")}});
                app.merge(&self.made[name], &patch).await;
            }
            ["label", name] => drop(app.merge(&self.made[name], &json!({"labels": {"step": "label"}})).await),
            ["refer", name, "to", target] => {
                let references = json!({"references": {"clusters": [{"id": id(&self.made[target])}]}});
                app.merge(&self.made[name], &references).await;
            }
            ["delete", name] => drop(app.remove(&self.made[name]).await),
            ["force", name] => app.force_delete(&self.made[name]).await,
            [verb @ ("report" | "discarded"), name, adapter, generation, word] => {
                let report = json!({
                    "adapter": adapter,
                    "observed_generation": generation.parse::<u64>().unwrap(),
                    "conditions": conditions(word),
                });
                let status = if verb == "report" { 201 } else { 204 };
                app.report(&self.made[name], &report).await.expect_status(status);
            }
            _ => panic!("no such step: {step}"),
        }
    }

    /// Names are made unique, so that all situations share a server.
    async fn make(&mut self, kind: &str, name: &'static str, below: &str) {
        let plural = PLURALS.iter().find(|(known, _)| *known == kind).unwrap().1;
        let made =
            self.app.create_named(&format!("{below}/{plural}"), kind, &unique(&format!("{name}-of"))).await;
        self.made.insert(name, made);
    }

    /// The explanation with names as the situation uses them.
    async fn explained(&self, name: &str) -> Value {
        let mut given = explained(self.app, &self.made[name]).await.to_string();
        // Longer ones first: one name may be the beginning of another.
        let mut names: Vec<_> = self.made.iter().map(|(name, made)| (text(&made["name"]), *name)).collect();
        names.sort_by_key(|(real, _)| std::cmp::Reverse(real.len()));
        for (real, name) in names {
            given = given.replace(real, name);
        }
        serde_json::from_str(&given).unwrap()
    }
}

async fn each_situation_names_exactly_its_blockers(app: &App) {
    assert!(SITUATIONS.len() >= 40);
    for (situation, steps, asked, phase, expected) in SITUATIONS {
        let mut world = World { app, made: BTreeMap::new() };
        for step in steps.split(';') {
            world.step(step).await;
        }
        let explanation = world.explained(asked).await;
        assert_eq!(explanation["phase"], *phase, "{situation}: {explanation:#}");
        let blockers = explanation["blockers"].as_array().unwrap();
        assert_eq!(blockers.len(), expected.len(), "{situation}: {explanation:#}");
        for (blocker, expected) in blockers.iter().zip(*expected) {
            let (who, detail) = expected.split_once(": ").unwrap();
            assert_eq!(
                format!("{} {}", text(&blocker["kind"]), text(&blocker["name"])),
                who,
                "{situation}: {blocker:#}"
            );
            assert!(text(&blocker["detail"]).contains(detail), "{situation}: {blocker:#}");
        }
        if let Some((worst, _)) = expected.first().and_then(|worst| worst.split_once(": ")) {
            assert!(text(&explanation["summary"]).contains(worst), "{situation}: {explanation:#}");
        }
        check_usefulness(&world, asked, &explanation, situation).await;
    }
}

/// What holds in every situation.
async fn check_usefulness(world: &World<'_>, asked: &str, explanation: &Value, situation: &str) {
    let resource = world.app.read(&world.made[asked]).await;
    let is_deleted = !resource["deleted_time"].is_null();
    let reconciled = resource["status"]["conditions"][0]["status"] == "True";
    let blockers = explanation["blockers"].as_array().unwrap();
    let unhealthy = |blocker: &Value| text(&blocker["detail"]).starts_with("Unhealthy");
    assert_eq!(reconciled, blockers.iter().all(unhealthy), "{situation}: {explanation:#}");
    let summary = text(&explanation["summary"]);
    assert!(
        summary.starts_with(&format!("{} '{asked}' ", text(&resource["kind"]))),
        "{situation}: {summary}"
    );
    for blocker in blockers {
        let (name, action) = (text(&blocker["name"]), text(&blocker["action"]));
        match text(&blocker["kind"]) {
            "adapter" => assert!(action.contains(&format!("adapter {name}")), "{situation}: {action}"),
            _ => assert!(action.contains("/explain"), "{situation}: {action}"),
        }
        assert_eq!(action.contains("/force-delete with a reason"), is_deleted, "{situation}: {action}");
        assert!(text(&blocker["since"]) >= text(&resource["created_time"]), "{situation}: {blocker:#}");
        if is_deleted {
            assert_eq!(blocker["since"], resource["deleted_time"], "{situation}");
        }
    }
    for stranger in ["guest", "null", "None"] {
        assert!(!explanation.to_string().contains(stranger), "{situation}: {explanation:#}");
    }
}
