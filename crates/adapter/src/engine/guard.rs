//! Whether a report may say `Finalized=True`. Only what this execution saw counts, and unknown never counts as absent.

use crate::targets::Observation;

/// What the execution saw.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    /// Whether the resource that was read is being deleted.
    pub(crate) deleting: bool,
    /// The generation that was read.
    pub(crate) read_generation: i64,
    /// The generation that is reported.
    pub(crate) reported_generation: Option<i64>,
    /// The phase that failed.
    pub(crate) failed: Option<&'a str>,
    /// The precondition that is not met.
    pub(crate) unmet: Option<&'a str>,
    /// Every declared resource with what was last seen of it.
    pub(crate) resources: Vec<(&'a str, Option<&'a Observation>)>,
    /// Objects with our labels; `None` when there is no target.
    pub(crate) owned: Option<&'a Observation>,
}

/// Why `Finalized=True` is withheld.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Withheld {
    /// For metrics.
    pub(crate) why: &'static str,
    /// For people.
    pub(crate) message: String,
}

/// Nothing when the report may say `Finalized=True`.
pub(crate) fn withheld(evidence: &Evidence<'_>) -> Option<Withheld> {
    let because = |why, message: String| Some(Withheld { why, message });
    if !evidence.deleting {
        return because("not_deleting", "the resource is not being deleted".to_owned());
    }
    if evidence.reported_generation != Some(evidence.read_generation) {
        let message = format!("the report is not on generation {}, which was read", evidence.read_generation);
        return because("generation", message);
    }
    if let Some(phase) = evidence.failed {
        return because("failed", format!("the phase {phase} failed"));
    }
    if let Some(name) = evidence.unmet {
        return because("precondition", format!("the precondition {name} is not met"));
    }
    for (name, observation) in &evidence.resources {
        match observation {
            Some(Observation::Absent) => {}
            Some(Observation::Present(objects)) => {
                let objects = objects.iter().map(object_name).collect::<Vec<_>>().join(", ");
                return because("present", format!("{name} is still there: {objects}"));
            }
            Some(Observation::Unknown(error)) => {
                return because("unknown", format!("whether {name} is gone is unknown: {error}"));
            }
            None => return because("unknown", format!("{name} was not looked for")),
        }
    }
    match evidence.owned {
        None | Some(Observation::Absent) => None,
        Some(Observation::Present(objects)) => {
            let objects = objects.iter().map(object_name).collect::<Vec<_>>().join(", ");
            because("owned", format!("objects with our labels are still there: {objects}"))
        }
        Some(Observation::Unknown(error)) => {
            because("unknown", format!("whether objects with our labels are left is unknown: {error}"))
        }
    }
}

/// `Kind namespace/name` of an object.
pub(crate) fn object_name(object: &serde_json::Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(serde_json::Value::as_str);
    let (kind, name) = (text("/kind").unwrap_or("object"), text("/metadata/name").unwrap_or_default());
    match text("/metadata/namespace") {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::targets::{ErrorClass, TargetError};

    fn sound<'a>(resources: Vec<(&'a str, Option<&'a Observation>)>, owned: &'a Observation) -> Evidence<'a> {
        Evidence {
            deleting: true,
            read_generation: 3,
            reported_generation: Some(3),
            failed: None,
            unmet: None,
            resources,
            owned: Some(owned),
        }
    }

    #[test]
    fn each_condition_withholds_by_itself() {
        let absent = Observation::Absent;
        let present =
            Observation::Present(vec![json!({"kind": "Job", "metadata": {"namespace": "a", "name": "b"}})]);
        let error =
            TargetError { class: ErrorClass::Terminal, reason: "Forbidden".into(), message: "403".into() };
        let unknown = Observation::Unknown(error);
        let why = |evidence: Evidence<'_>| withheld(&evidence).map(|withheld| withheld.why);
        let all = || vec![("job", Some(&absent))];
        assert_eq!(why(sound(all(), &absent)), None);
        assert_eq!(why(Evidence { deleting: false, ..sound(all(), &absent) }), Some("not_deleting"));
        assert_eq!(
            why(Evidence { reported_generation: Some(2), ..sound(all(), &absent) }),
            Some("generation")
        );
        assert_eq!(why(Evidence { reported_generation: None, ..sound(all(), &absent) }), Some("generation"));
        assert_eq!(why(Evidence { failed: Some("resources"), ..sound(all(), &absent) }), Some("failed"));
        assert_eq!(why(Evidence { unmet: Some("p"), ..sound(all(), &absent) }), Some("precondition"));
        assert_eq!(why(sound(vec![("job", Some(&present))], &absent)), Some("present"));
        assert_eq!(why(sound(vec![("job", Some(&unknown))], &absent)), Some("unknown"));
        assert_eq!(why(sound(vec![("job", None)], &absent)), Some("unknown"));
        assert_eq!(why(sound(all(), &present)), Some("owned"));
        assert_eq!(why(sound(all(), &unknown)), Some("unknown"));
        assert_eq!(why(Evidence { owned: None, ..sound(Vec::new(), &absent) }), None);
        let message = withheld(&sound(vec![("job", Some(&present))], &absent)).unwrap().message;
        assert_eq!(message, "job is still there: Job a/b");
    }
}
