//! The part of JSONPath that people know from `kubectl`: text with `{…}` in it, where each picks values:
//! members, indexes, slices, wildcards, unions, filters by one comparison, `..`, literals, and `{range}` to `{end}`.
//! An absent member picks nothing. No template and no document makes it panic or run without a bound.

mod evaluate;
mod parse;

use std::fmt;

use serde_json::Value;

/// A template that was understood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template(Vec<Part>);

/// A piece of a template.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// Printed as it is.
    Text(String),
    /// The values that the path picks, with a space between.
    Pick(Path),
    /// The parts once for each value that the path picks.
    Range(Path, Vec<Part>),
}

/// Where to look, step by step.
#[derive(Debug, Clone, PartialEq, Default)]
struct Path {
    /// Whether it starts at the root even inside a range or filter.
    from_root: bool,
    steps: Vec<Step>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// A member by its name.
    Member(String),
    /// Every member or item.
    All,
    /// Some of several.
    Union(Vec<Choice>),
    /// Items from, to, by step.
    Slice(Option<i64>, Option<i64>, i64),
    /// Items and members of which this is true.
    Filter(Test),
    /// The value and everything below it, for the next step.
    Descend,
}

/// One of a union.
#[derive(Debug, Clone, PartialEq)]
enum Choice {
    Name(String),
    Index(i64),
}

/// The condition of a filter.
#[derive(Debug, Clone, PartialEq)]
struct Test {
    left: Operand,
    right: Option<(Comparison, Operand)>,
}

/// A side of a comparison.
#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(Path),
    Literal(Value),
}

/// How two sides are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Why a template or its result was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault(String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "jsonpath: {}", self.0)
    }
}

impl Template {
    /// Reads a template. One without braces is a path alone: `.items[0].name`.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let whole = if text.contains('{') { text.to_owned() } else { format!("{{{text}}}") };
        parse::template(&whole).map(Self)
    }

    /// The output for a document.
    pub(crate) fn apply(&self, document: &Value) -> Result<String, Fault> {
        evaluate::apply(&self.0, document)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn fleet() -> Value {
        json!({"items": [
            {"name": "prod-1", "generation": 3, "labels": {"team.io/owner": "blue"},
             "status": {"conditions": [{"type": "Reconciled", "status": "True"}, {"type": "DnsSuccessful", "status": "False"}]}},
            {"name": "dev-1", "generation": 1, "labels": {},
             "status": {"conditions": [{"type": "Reconciled", "status": "False"}]}},
        ], "total": 2})
    }

    fn picked(template: &str) -> String {
        Template::parse(template).unwrap().apply(&fleet()).unwrap()
    }

    #[test]
    fn the_templates_that_people_know_work() {
        for (template, result) in [
            ("{.items[*].name}", "prod-1 dev-1"),
            ("{$.items[*].name}", "prod-1 dev-1"),
            (".items[0].name", "prod-1"),
            ("items[0].name", "prod-1"),
            ("{.items[-1].name}", "dev-1"),
            ("{.items[0:1].name}", "prod-1"),
            ("{.items[::-1].name}", "dev-1 prod-1"),
            ("{.items[0,1].name}", "prod-1 dev-1"),
            ("{.items[0]['name','generation']}", "prod-1 3"),
            ("{.items[0].labels.team\\.io/owner}", "blue"),
            ("{.items[0].labels['team.io/owner']}", "blue"),
            ("{.items[0].status.conditions[?(@.type==\"Reconciled\")].status}", "True"),
            ("{.items[?(@.generation>1)].name}", "prod-1"),
            ("{.items[?(@.generation <= 1)].name}", "dev-1"),
            ("{.items[?(@.labels['team.io/owner'])].name}", "prod-1"),
            ("{.items[?(@.name != 'prod-1')].name}", "dev-1"),
            ("{..type}", "Reconciled DnsSuccessful Reconciled"),
            ("{.items[0].labels.*}", "blue"),
            ("{.items[0].labels}", "{\"team.io/owner\":\"blue\"}"),
            ("{.nothing.here}", ""),
            ("n={.total}!", "n=2!"),
            ("{range .items[*]}{.name}{\"\\t\"}{.generation}{\"\\n\"}{end}", "prod-1\t3\ndev-1\t1\n"),
            ("{range .items[*]}{@.name}/{$.total} {end}", "prod-1/2 dev-1/2 "),
            (
                "{range .items[*]}{range .status.conditions[*]}{.type},{end};{end}",
                "Reconciled,DnsSuccessful,;Reconciled,;",
            ),
            ("{@}", &fleet().to_string()),
        ] {
            assert_eq!(picked(template), result, "{template}");
        }
    }

    #[test]
    fn faults_name_their_position() {
        for (template, told) in [
            ("{.a", "closing brace"),
            ("{range .a}x", "{end}"),
            ("{end}", "{range"),
            ("{.a[}", "index"),
            ("{.a[?(@.b==)]}", "value"),
            ("{.a[::0]}", "step"),
            ("{'x}", "quote"),
            ("{.a b}", "after"),
        ] {
            let fault = Template::parse(template).unwrap_err().to_string();
            assert!(fault.contains(told), "{template}: {fault}");
        }
    }

    #[test]
    fn a_template_that_picks_too_much_ends() {
        let mut deep = json!({"a": [1, 2, 3]});
        for _ in 0..60 {
            deep = json!({"a": deep, "b": [1, 2]});
        }
        let fault = Template::parse("{..*..*..*..*..*..*}").unwrap().apply(&deep).unwrap_err();
        assert!(fault.to_string().contains("too many"), "{fault}");
    }

    proptest! {
        #[test]
        fn no_template_makes_it_panic(template in any::<String>()) {
            let _ = Template::parse(&template).map(|template| template.apply(&fleet()));
        }

        #[test]
        fn no_text_with_the_characters_of_templates_makes_it_panic(
            template in "[{}\\[\\].*@$?()'\"=<>!:,\\\\ 0-9a-en\\-]{0,40}"
        ) {
            let _ = Template::parse(&template).map(|template| template.apply(&fleet()));
        }

        #[test]
        fn names_in_quotes_find_their_member(name in any::<String>()) {
            let quoted = name.replace('\\', "\\\\").replace('\'', "\\'");
            let template = Template::parse(&format!("{{['{quoted}']}}")).unwrap();
            prop_assert_eq!(template.apply(&json!({ name.as_str(): 7 })).unwrap(), "7");
        }
    }
}
