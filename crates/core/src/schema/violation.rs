//! Violations, and the faults that tell the caller of them.

use serde_json::Value;

use super::check::Step;
use super::node::{Bound, Enum, Keyword, Side};
use crate::json::member;
use crate::{Fault, FaultKind, echo};

/// How much of a path is written. What is shown of it is less.
const MAX_PATH: usize = 4096;

/// How many options of an `enum` a fault lists.
const MAX_LISTED: usize = 100;

/// A demand of a schema that a value does not meet.
#[derive(Debug)]
pub(super) struct Violation<'s, 'i> {
    pub(super) path: Vec<Step<'i>>,
    pub(super) value: &'i Value,
    pub(super) breach: Breach<'s>,
}

/// What is not met.
#[derive(Debug)]
pub(super) enum Breach<'s> {
    Keyword(&'s Keyword),
    /// A value fits more than one schema of a `oneOf`.
    SeveralOfOne,
    /// A required member is not there.
    Missing(&'s str),
    /// The member is not one that the schema allows.
    Unknown,
    /// So many items are too many.
    AdditionalItems(usize),
    UnevaluatedItems(usize),
    /// A member's name does not fit; the sentence says why.
    Name(String),
}

impl Violation<'_, '_> {
    /// The position of every step on the way. What is missing from a value comes after what is there.
    pub(super) fn position(&self) -> Vec<usize> {
        let steps = self.path.iter().map(|step| match step {
            Step::Member(i, _) | Step::Item(i) => *i,
        });
        steps.chain(matches!(self.breach, Breach::Missing(_)).then_some(usize::MAX)).collect()
    }

    pub(super) fn fault(&self) -> Fault {
        let field = field(&self.path);
        let plain = |message: String| Fault::value(&*field, message, self.value);
        let keyword = match &self.breach {
            Breach::Missing(name) => return Fault::missing(member(&field, name)),
            Breach::Unknown => {
                let message = format!("{field} is not a member that the schema allows");
                return Fault::new(FaultKind::Value, field, message).rule("unknown");
            }
            Breach::Keyword(keyword) => *keyword,
            _ => return plain(format!("{field}: {}", self.sentence("value"))).rule("schema"),
        };
        match keyword {
            Keyword::Enum(Enum { options, .. }) => {
                let show = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
                let allowed: Vec<String> = options.iter().take(MAX_LISTED).map(show).collect();
                let more = if options.len() > MAX_LISTED { ", …" } else { "" };
                let message = format!("{field} must be one of {}{more}", allowed.join(", "));
                plain(message).rule("enum").allowed(allowed)
            }
            Keyword::Bound(Bound { side: Side::Min, exclusive: false, limit, .. }) => {
                let mut fault = plain(format!("{field} must be at least {limit}")).rule("min");
                fault.min_value = Some(limit.clone());
                fault
            }
            Keyword::Bound(Bound { side: Side::Max, exclusive: false, limit, .. }) => {
                let mut fault = plain(format!("{field} must be at most {limit}")).rule("max");
                fault.max_value = Some(limit.clone());
                fault
            }
            Keyword::MinLength(limit) => plain(format!("{field} must have at least {limit} characters"))
                .rule("min_length")
                .bounds(*limit, None),
            Keyword::MaxLength(limit) => plain(format!("{field} must have at most {limit} characters"))
                .rule("max_length")
                .bounds(None, *limit),
            Keyword::Pattern(pattern) => {
                plain(format!("{field} must match the pattern {}", pattern.source()))
                    .pattern(pattern.source())
            }
            Keyword::Format(format) => {
                plain(format!("{field} must be a valid {}", format.name)).format(format.name)
            }
            Keyword::Type(_) => {
                plain(format!("{field} has the wrong type: {}", self.sentence("value"))).rule("type")
            }
            _ => plain(format!("{field}: {}", echo(&self.sentence("value")))).rule("schema"),
        }
    }

    /// What is wrong with the name of a member, which is the value here.
    pub(super) fn sentence_of_name(&self, name: &Value) -> String {
        self.sentence(&format!("\"{}\"", echo(name.as_str().unwrap_or_default())))
    }

    /// What is wrong, about a value that is shown so.
    fn sentence(&self, shown: &str) -> String {
        let keyword = match &self.breach {
            Breach::SeveralOfOne => {
                return format!(
                    "{shown} is valid under more than one of the schemas listed in the 'oneOf' keyword"
                );
            }
            Breach::AdditionalItems(count) => {
                return format!(
                    "Additional items are not allowed ({})",
                    counted(*count as u64, "item", "items")
                );
            }
            Breach::UnevaluatedItems(count) => {
                return format!(
                    "Unevaluated items are not allowed ({})",
                    counted(*count as u64, "item", "items")
                );
            }
            Breach::Name(sentence) => return echo(sentence),
            Breach::Missing(name) => return format!("\"{name}\" is a required property"),
            Breach::Unknown => return format!("{shown} is not a member that the schema allows"),
            Breach::Keyword(keyword) => *keyword,
        };
        let none_of =
            |name| format!("{shown} is not valid under any of the schemas listed in the '{name}' keyword");
        match keyword {
            Keyword::Type(types) => {
                let names: Vec<String> = types.names().map(|name| format!("\"{name}\"")).collect();
                let types = if names.len() == 1 { "type" } else { "types" };
                format!("{shown} is not of {types} {}", names.join(", "))
            }
            Keyword::Const(expected) => format!("{expected} was expected"),
            Keyword::Enum(Enum { options, .. }) => format!("{shown} is not one of {}", some_of(options)),
            Keyword::Bound(Bound { side, exclusive, limit, .. }) => {
                let (more, limit_is) = match side {
                    Side::Min => ("less", format!("the minimum of {limit}")),
                    Side::Max => ("greater", format!("the maximum of {limit}")),
                };
                let equal = if *exclusive { " than or equal to" } else { " than" };
                format!("{shown} is {more}{equal} {limit_is}")
            }
            Keyword::MultipleOf(divisor) => format!("{shown} is not a multiple of {}", divisor.number),
            Keyword::MinLength(n) => {
                format!("{shown} is shorter than {}", counted(*n, "character", "characters"))
            }
            Keyword::MaxLength(n) => {
                format!("{shown} is longer than {}", counted(*n, "character", "characters"))
            }
            Keyword::MinItems(n) => format!("{shown} has less than {}", counted(*n, "item", "items")),
            Keyword::MaxItems(n) => format!("{shown} has more than {}", counted(*n, "item", "items")),
            Keyword::MinProperties(n) => {
                format!("{shown} has less than {}", counted(*n, "property", "properties"))
            }
            Keyword::MaxProperties(n) => {
                format!("{shown} has more than {}", counted(*n, "property", "properties"))
            }
            Keyword::Pattern(pattern) => format!("{shown} does not match \"{}\"", pattern.source()),
            Keyword::Format(format) => format!("{shown} is not a \"{}\"", format.name),
            Keyword::UniqueItems => format!("{shown} has non-unique elements"),
            Keyword::Contains(_) => format!("None of {shown} are valid under the given schema"),
            Keyword::AnyOf(_) => none_of("anyOf"),
            Keyword::OneOf(_) => none_of("oneOf"),
            Keyword::Not { shown: schema, .. } => format!("{schema} is not allowed for {shown}"),
            _ => format!("False schema does not allow {shown}"),
        }
    }
}

/// `1, 2 or 3`, or the first two and how many there are besides.
fn some_of(options: &[Value]) -> String {
    let shown = |options: &[Value]| options.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
    match options {
        [first @ .., last] if (1..3).contains(&first.len()) => format!("{} or {last}", shown(first)),
        [first, second, rest @ ..] if !rest.is_empty() => {
            format!("{first}, {second} or {} other candidates", rest.len())
        }
        few => shown(few),
    }
}

fn counted(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// The path of a value in the spec.
pub(super) fn field(path: &[Step<'_>]) -> String {
    let mut field = "spec".to_owned();
    for step in path {
        if field.len() > MAX_PATH {
            break;
        }
        field = match step {
            Step::Member(_, name) => member(&field, &name[..name.floor_char_boundary(MAX_PATH)]),
            Step::Item(i) => format!("{field}[{i}]"),
        };
    }
    echo(&field)
}
