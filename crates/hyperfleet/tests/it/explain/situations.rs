//! A library of situations. Each is made by requests alone, and says what the explanation must hold; whoever is not
//! listed must not be blamed.

use std::collections::BTreeMap;

use super::*;

/// A situation: its name, the requests that lead to it, whom it is asked about, the phase, and the blockers in order as
/// `kind name: part of the detail`.
///
/// The requests: `make KIND NAME [in OWNER]`, `patch NAME`, `label NAME`, `delete NAME`, `force NAME`,
/// `refer NAME to NAME`, `report NAME ADAPTER GENERATION WORD`, and `discarded …` for a report that is not kept. The
/// words are those of [`conditions`].
type Situation = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

const SITUATIONS: &[Situation] = &[
    // Well: nobody is blamed.
    ("a kind that needs no adapter", "make Zone z", "z", "Reconciled", &[]),
    (
        "every adapter has reported",
        "make Cluster c; report c validator 1 ok; report c dns 1 ok",
        "c",
        "Reconciled",
        &[],
    ),
    (
        "every adapter has followed a change",
        "make Cluster c; report c validator 1 ok; report c dns 1 ok; patch c; report c dns 2 ok; report c validator 2 ok",
        "c",
        "Reconciled",
        &[],
    ),
    (
        "an adapter was down and is not any more",
        "make Cluster c; report c validator 1 ok; report c dns 1 down; report c dns 1 ok",
        "c",
        "Reconciled",
        &[],
    ),
    (
        "an adapter was sick and is not any more",
        "make Cluster c; report c validator 1 ok; report c dns 1 sick; report c dns 1 ok",
        "c",
        "Reconciled",
        &[],
    ),
    (
        "an adapter that cannot tell changes nothing of what is known",
        "make Cluster c; report c validator 1 ok; report c dns 1 ok; discarded c dns 1 unknown",
        "c",
        "Reconciled",
        &[],
    ),
    (
        "an adapter that nobody requires is down",
        "make Cluster c; report c validator 1 ok; report c dns 1 ok; report c guest 1 broken",
        "c",
        "Reconciled",
        &[],
    ),
    (
        "an adapter that nobody requires is behind",
        "make Cluster c; report c guest 1 ok; patch c; report c validator 2 ok; report c dns 2 ok",
        "c",
        "Reconciled",
        &[],
    ),
    (
        "labels make no new generation",
        "make Cluster c; report c validator 1 ok; report c dns 1 ok; label c",
        "c",
        "Reconciled",
        &[],
    ),
    (
        "a child that waits is no matter of an active owner",
        "make Cluster c; make NodePool p in c; report c validator 1 ok; report c dns 1 ok",
        "c",
        "Reconciled",
        &[],
    ),
    (
        "a child that is going is no matter of an active owner",
        "make Cluster c; make NodePool p in c; report c validator 1 ok; report c dns 1 ok; delete p",
        "c",
        "Reconciled",
        &[],
    ),
    (
        "a child that restricts is no matter before the deletion",
        "make Cluster c; make Vault v in c; report c validator 1 ok; report c dns 1 ok",
        "c",
        "Reconciled",
        &[],
    ),
    (
        "whoever refers to it is no matter before the deletion",
        "make Cluster c; make Service s; refer s to c; report c validator 1 ok; report c dns 1 ok",
        "c",
        "Reconciled",
        &[],
    ),
    (
        "what it refers to is no matter",
        "make Cluster c; make Service s; refer s to c; report s router 2 ok",
        "s",
        "Reconciled",
        &[],
    ),
    // Waiting, and nothing is wrong.
    (
        "nobody has reported",
        "make Cluster c",
        "c",
        "Reconciling",
        &["adapter validator: Has never reported", "adapter dns: Has never reported"],
    ),
    (
        "one adapter has not reported",
        "make Cluster c; report c validator 1 ok",
        "c",
        "Reconciling",
        &["adapter dns: Has never reported"],
    ),
    (
        "only a stranger has reported",
        "make Host h in r in z; report h guest 1 ok",
        "h",
        "Reconciling",
        &["adapter imager: Has never reported"],
    ),
    (
        "an adapter cannot tell yet",
        "make Cluster c; report c validator 1 ok; report c dns 1 unknown",
        "c",
        "Reconciling",
        &["adapter dns: cannot tell yet: Available=Unknown (StillLooking)"],
    ),
    (
        "an adapter could not tell about an older generation",
        "make Cluster c; report c dns 1 unknown; patch c; report c validator 2 ok",
        "c",
        "Reconciling",
        &["adapter dns: Has looked at generation 1 of 2 and cannot tell yet"],
    ),
    (
        "one adapter is behind",
        "make Cluster c; report c validator 1 ok; report c dns 1 ok; patch c; report c validator 2 ok",
        "c",
        "Reconciling",
        &["adapter dns: behind by 1 generation:"],
    ),
    (
        "both adapters are behind",
        "make Cluster c; report c validator 1 ok; report c dns 1 ok; patch c",
        "c",
        "Reconciling",
        &["adapter validator: behind by 1 generation:", "adapter dns: behind by 1 generation:"],
    ),
    (
        "an adapter is behind by three",
        "make Cluster c; report c dns 1 ok; patch c; patch c; patch c; report c validator 4 ok",
        "c",
        "Reconciling",
        &["adapter dns: behind by 3 generations: its last report is on generation 1 of 4"],
    ),
    (
        "an adapter repeats itself about an old generation",
        "make Cluster c; report c dns 1 ok; patch c; report c validator 2 ok; report c dns 1 ok",
        "c",
        "Reconciling",
        &["adapter dns: behind by 1 generation:"],
    ),
    (
        "an adapter answers a new generation with what is not kept",
        "make Cluster c; report c dns 1 ok; patch c; report c validator 2 ok; discarded c dns 2 unknown",
        "c",
        "Reconciling",
        &["adapter dns: behind by 1 generation:"],
    ),
    (
        "a report on a generation that is not there yet",
        "make Cluster c; report c validator 1 ok; discarded c dns 2 ok",
        "c",
        "Reconciling",
        &["adapter dns: Has never reported"],
    ),
    (
        "an adapter was down at a generation that is over",
        "make Cluster c; report c validator 1 ok; report c dns 1 down; patch c; report c validator 2 ok",
        "c",
        "Reconciling",
        &["adapter dns: on generation 1 of 2 and says Available=False (QuotaExceeded)"],
    ),
    (
        "an adapter was sick at a generation that is over",
        "make Cluster c; report c validator 1 ok; report c dns 1 sick; patch c; report c validator 2 ok",
        "c",
        "Reconciling",
        &["adapter dns: and says Health=False (OutOfMemory)"],
    ),
    (
        "a new reference is a new generation",
        "make Cluster c; make Service s; report s router 1 ok; refer s to c",
        "s",
        "Reconciling",
        &["adapter router: behind by 1 generation:"],
    ),
    (
        "a child of an active owner",
        "make Cluster c; make NodePool p in c",
        "p",
        "Reconciling",
        &["adapter scaler: Has never reported"],
    ),
    // Something is wrong.
    (
        "an adapter is down",
        "make Cluster c; report c validator 1 ok; report c dns 1 down",
        "c",
        "Degraded",
        &["adapter dns: Available=False (QuotaExceeded), 'no more addresses'"],
    ),
    (
        "both adapters are down",
        "make Cluster c; report c validator 1 down; report c dns 1 down",
        "c",
        "Degraded",
        &["adapter validator: Available=False", "adapter dns: Available=False"],
    ),
    (
        "an adapter is sick, and the resource is there",
        "make Cluster c; report c validator 1 ok; report c dns 1 sick",
        "c",
        "Degraded",
        &["adapter dns: Unhealthy at generation 1, though available: Health=False (OutOfMemory)"],
    ),
    (
        "an adapter is down and sick",
        "make Cluster c; report c validator 1 ok; report c dns 1 broken",
        "c",
        "Degraded",
        &["adapter dns: Available=False; Health=False (OutOfMemory)"],
    ),
    (
        "an adapter could not apply",
        "make Cluster c; report c validator 1 ok; report c dns 1 unapplied",
        "c",
        "Degraded",
        &["adapter dns: Available=False; Applied=False (Denied)"],
    ),
    (
        "down is worse than silent",
        "make Cluster c; report c dns 1 down",
        "c",
        "Degraded",
        &["adapter dns: Available=False", "adapter validator: Has never reported"],
    ),
    (
        "sick is worse than behind",
        "make Cluster c; report c validator 1 ok; patch c; report c dns 2 sick",
        "c",
        "Degraded",
        &["adapter dns: Unhealthy", "adapter validator: behind by 1 generation:"],
    ),
    (
        "what was reached breaks",
        "make Cluster c; report c validator 1 ok; report c dns 1 ok; report c dns 1 down",
        "c",
        "Degraded",
        &["adapter dns: Available=False"],
    ),
    (
        "a new generation fails",
        "make Cluster c; report c validator 1 ok; report c dns 1 ok; patch c; report c validator 2 ok; report c dns 2 down",
        "c",
        "Degraded",
        &["adapter dns: Reports at generation 2: Available=False"],
    ),
    // Deletions.
    (
        "nobody has reported on a deletion",
        "make Cluster c; delete c",
        "c",
        "Finalizing",
        &[
            "adapter validator: Has never reported on this resource; generation 2 is awaited. Its Finalized=True",
            "adapter dns: Its Finalized=True at generation 2 is awaited",
        ],
    ),
    (
        "both were well before the deletion",
        "make Cluster c; report c validator 1 ok; report c dns 1 ok; delete c",
        "c",
        "Finalizing",
        &["adapter validator: behind by 1 generation:", "adapter dns: behind by 1 generation:"],
    ),
    (
        "one adapter has finished",
        "make Cluster c; delete c; report c validator 2 done",
        "c",
        "Finalizing",
        &["adapter dns: Has never reported"],
    ),
    (
        "one that finished cannot tell whether it is available",
        "make Cluster c; delete c; report c validator 2 done-unknown",
        "c",
        "Finalizing",
        &["adapter dns: Has never reported"],
    ),
    (
        "an adapter cleans up",
        "make Cluster c; delete c; report c validator 2 done; report c dns 2 working",
        "c",
        "Finalizing",
        &["adapter dns: Has not reported Finalized=True at generation 2: Finalized=False (Draining)"],
    ),
    (
        "an adapter reports as if nothing were",
        "make Cluster c; delete c; report c validator 2 done; report c dns 2 ok",
        "c",
        "Finalizing",
        &["adapter dns: Has not reported Finalized=True at generation 2; last heard of at"],
    ),
    (
        "an adapter finished with an older generation",
        "make Cluster c; report c dns 1 done; delete c; report c validator 2 done",
        "c",
        "Finalizing",
        &["adapter dns: behind by 1 generation:"],
    ),
    (
        "sick is worse than silent in a deletion too",
        "make Cluster c; delete c; report c dns 2 ill",
        "c",
        "Finalizing",
        &[
            "adapter dns: and is unhealthy: Finalized=False (Draining); Health=False",
            "adapter validator: Has never",
        ],
    ),
    (
        "silent is worse than at work",
        "make Cluster c; delete c; report c validator 2 working",
        "c",
        "Finalizing",
        &["adapter dns: Has never reported", "adapter validator: Finalized=False"],
    ),
    (
        "a child is left",
        "make Cluster c; make NodePool p in c; delete c; report c validator 2 done; report c dns 2 done",
        "c",
        "Finalizing",
        &[
            "child p: NodePool 'p' is not finalized: Required adapters not reporting Finalized=True at generation 2: scaler",
        ],
    ),
    (
        "two children are left",
        "make Cluster c; make NodePool p in c; make NodePool q in c; delete c; report c validator 2 done; report c dns 2 done",
        "c",
        "Finalizing",
        &["child p: scaler", "child q: scaler"],
    ),
    (
        "a child that finished is not blamed",
        "make Cluster c; make NodePool p in c; make NodePool q in c; delete c; report c validator 2 done; report c dns 2 done; report p scaler 2 done",
        "c",
        "Finalizing",
        &["child q: scaler"],
    ),
    (
        "an adapter and a child",
        "make Cluster c; make NodePool p in c; delete c; report c validator 2 done",
        "c",
        "Finalizing",
        &["adapter dns: Has never reported", "child p: scaler"],
    ),
    (
        "a child of a child is left",
        "make Cluster c; make NodePool p in c; make Disk d in p; delete c; report c validator 2 done; report c dns 2 done; report p scaler 2 done",
        "c",
        "Finalizing",
        &[
            "child p: waiting for child resources: Disk (1). Left below it: Disk (1). At the bottom of NodePool 'p' > Disk 'd': \
           Required adapters not reporting Finalized=True at generation 2: formatter",
        ],
    ),
    (
        "a child and its child are left",
        "make Cluster c; make NodePool p in c; make Disk d in p; delete c; report c validator 2 done; report c dns 2 done",
        "c",
        "Finalizing",
        &["child p: generation 2: scaler. Left below it: Disk (1). At the bottom of NodePool 'p' > Disk 'd'"],
    ),
    (
        "the child that waits for its child",
        "make Cluster c; make NodePool p in c; make Disk d in p; delete c; report p scaler 2 done",
        "p",
        "Finalizing",
        &["child d: formatter"],
    ),
    (
        "the one at the bottom",
        "make Cluster c; make NodePool p in c; make Disk d in p; delete c",
        "d",
        "Finalizing",
        &["adapter formatter: Has never reported"],
    ),
    (
        "owners without adapters wait for the bottom",
        "make Host h in r in z; delete z",
        "z",
        "Finalizing",
        &["child r: At the bottom of Rack 'r' > Host 'h'"],
    ),
    (
        "a restricting child that was deleted first",
        "make Cluster c; make Vault v in c; delete v; delete c; report c validator 2 done; report c dns 2 done",
        "c",
        "Finalizing",
        &["child v: keeper"],
    ),
    (
        "a child that was forced away is not blamed",
        "make Cluster c; make NodePool p in c; delete c; force p; report c validator 2 done",
        "c",
        "Finalizing",
        &["adapter dns: Has never reported"],
    ),
    (
        "a deleted referrer does not hold what it referred to",
        "make Cluster c; make Service s; refer s to c; delete s; delete c; report c validator 2 done",
        "c",
        "Finalizing",
        &["adapter dns: Has never reported"],
    ),
    (
        "a child deleted by itself",
        "make Cluster c; make NodePool p in c; delete p; report p scaler 2 working",
        "p",
        "Finalizing",
        &["adapter scaler: Finalized=False (Draining)"],
    ),
    (
        "a child of a later generation",
        "make Cluster c; make NodePool p in c; patch p; delete c; report c validator 2 done; report c dns 2 done",
        "c",
        "Finalizing",
        &["child p: at generation 3: scaler"],
    ),
    (
        "several at once",
        "make Cluster c; make NodePool p in c; make Vault v in c; delete v; delete c; report c validator 2 ill",
        "c",
        "Finalizing",
        &[
            "adapter validator: unhealthy",
            "adapter dns: Has never reported",
            "child v: keeper",
            "child p: scaler",
        ],
    ),
];

both_stores!(config = KINDS; each_situation_is_explained_by_what_is_in_the_way_and_nothing_else);

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

async fn each_situation_is_explained_by_what_is_in_the_way_and_nothing_else(app: &App) {
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
