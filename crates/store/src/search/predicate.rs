//! The tests of a filter as SQL. A test is null if the resource lacks the field or has another type there. A filter is made
//! two-valued where a `not` could negate it.

use hyperfleet_core::search::{
    Comparison, ConditionPart, Field, Filter, Literal, Predicate, Segment, Test, TextColumn, TimeColumn,
};
use hyperfleet_core::{Decimal, ResourceId, Timestamp, View};

use super::{Dialect, Value};

/// Builds a statement.
pub(super) struct Builder<'a> {
    pub(super) dialect: Dialect,
    pub(super) view: View<'a>,
    /// The expression of the kind.
    pub(super) kind: &'static str,
    pub(super) values: Vec<Value>,
    /// Whether a test looks at `resource_status s`.
    pub(super) reads_status: bool,
}

impl Builder<'_> {
    /// Binds a value and returns its placeholder.
    pub(super) fn bind(&mut self, value: Value) -> String {
        self.values.push(value);
        self.dialect.placeholder(self.values.len())
    }

    /// A filter that is true or false.
    pub(super) fn filter(&mut self, filter: &Filter) -> String {
        match filter {
            Filter::And(parts) => self.joined(parts, " and "),
            Filter::Or(parts) => self.joined(parts, " or "),
            Filter::Not(inner) => format!("not {}", self.filter(inner)),
            Filter::Test(test) => format!("coalesce({}, false)", self.test(test)),
            Filter::OfTenant(tenant) => {
                let tenant = self.bind(Value::Text(tenant.as_str().to_owned()));
                format!("coalesce(r.tenancy = {tenant}, false)")
            }
            Filter::RefersTo { ref_type, target } => {
                let (ref_type, target) =
                    (self.bind(Value::Text(ref_type.clone())), self.bind(Value::Id(*target)));
                let referrers = format!(
                    "select source_id from resource_references
                     where target_id = {target} and ref_type = {ref_type}"
                );
                match self.dialect {
                    // As an array they are read first, however many PostgreSQL expects.
                    Dialect::Postgres => format!("r.id = any(array({referrers}))"),
                    Dialect::Sqlite => format!("r.id in ({referrers})"),
                }
            }
        }
    }

    fn joined(&mut self, parts: &[Filter], word: &str) -> String {
        let parts: Vec<String> = parts.iter().map(|part| self.filter(part)).collect();
        format!("({})", parts.join(word))
    }

    /// A test that is true, false or null.
    pub(super) fn test(&mut self, Test { field, predicate }: &Test) -> String {
        match field {
            Field::Text(TextColumn::Id) if names_ids(predicate) => self.id("r.id", predicate),
            Field::Text(TextColumn::OwnerId) if names_ids(predicate) => self.id("r.owner_id", predicate),
            Field::Text(column) => self.text(&self.column(*column), predicate),
            Field::Label(key) => {
                let key = self.bind(Value::Text(key.clone()));
                self.text(&self.dialect.member("r.labels", &key), predicate)
            }
            Field::Tenancy(key) => {
                let key = self.bind(Value::Text(key.clone()));
                self.text(&self.dialect.member("r.tenancy", &key), predicate)
            }
            Field::Generation => self.integer("r.generation", predicate),
            Field::Time(column) => self.time(time_column(*column), predicate, Value::Time),
            Field::Spec(path) => self.spec(path, predicate),
            Field::Condition { kind, part } => self.condition(kind, *part, predicate),
        }
    }

    /// A text of the resource.
    pub(super) fn column(&self, column: TextColumn) -> String {
        match column {
            TextColumn::Id => self.dialect.id_text("r.id"),
            TextColumn::OwnerId => self.dialect.id_text("r.owner_id"),
            TextColumn::Name => "r.name".to_owned(),
            TextColumn::Kind => self.kind.to_owned(),
            TextColumn::CreatedBy => "r.created_by".to_owned(),
            TextColumn::UpdatedBy => "r.updated_by".to_owned(),
            TextColumn::DeletedBy => "r.deleted_by".to_owned(),
            TextColumn::OwnerKind => {
                self.by_kind(|view, kind| Some(quoted(&view.catalog.get(kind)?.parent.as_ref()?.kind)))
            }
            TextColumn::Href => self.by_kind(|view, kind| self.href(view, kind)),
        }
    }

    /// A text that depends on the kind; null for kinds without it.
    fn by_kind(&self, text: impl Fn(View<'_>, &str) -> Option<String>) -> String {
        let mut cases = String::new();
        for entity in self.view.catalog.kinds() {
            if let Some(text) = text(self.view, &entity.kind) {
                cases.push_str(&format!(" when {} then {text}", quoted(&entity.kind)));
            }
        }
        match cases.is_empty() {
            true => "cast(null as text)".to_owned(),
            false => self.dialect.by_code_point(&format!("case r.kind{cases} end")),
        }
    }

    /// The path of a resource of this kind, as [`View::href`] makes it. Ids have 36 characters, and those of the
    /// owners are joined by one.
    fn href(&self, view: View<'_>, kind: &str) -> Option<String> {
        let entity = view.catalog.get(kind)?;
        let mut parts = vec![quoted(view.href_prefix)];
        if view.contract.nests_children() {
            let lineage = view.catalog.lineage(entity);
            for (level, owner) in lineage[..lineage.len() - 1].iter().enumerate() {
                parts.push(quoted(&format!("/{}/", owner.plural)));
                parts.push(format!("substr(r.ancestors, {}, 36)", 37 * level + 1));
            }
        }
        parts.push(quoted(&format!("/{}/", entity.plural)));
        parts.push(self.dialect.id_text("r.id"));
        Some(parts.join(" || "))
    }

    fn id(&mut self, column: &str, predicate: &Predicate) -> String {
        let parse = |literal: &Literal| match literal {
            Literal::Text(text) => ResourceId::parse(text),
            _ => None,
        };
        let (ids, negated): (Vec<ResourceId>, bool) = match predicate {
            Predicate::In { values, negated } => (values.iter().filter_map(parse).collect(), *negated),
            Predicate::Compare(comparison, literal) => {
                (parse(literal).into_iter().collect(), *comparison == Comparison::NotEqual)
            }
            _ => return format!("{column} is {}null", if is_negated(predicate) { "not " } else { "" }),
        };
        let found = match ids.as_slice() {
            [] if negated => return format!("{column} is not null"),
            [] => return "false".to_owned(),
            [id] => format!("{column} = {}", self.bind(Value::Id(*id))),
            _ => {
                let list = self.bind(Value::Ids(ids));
                self.dialect.is_one_of(column, &list)
            }
        };
        if negated { format!("not ({found})") } else { found }
    }

    fn text(&mut self, text: &str, predicate: &Predicate) -> String {
        match predicate {
            Predicate::In { values, negated } if values.len() > 1 => {
                let list = self.bind(Value::Texts(values.iter().map(as_text).collect()));
                negate(*negated, self.dialect.is_one_of(text, &list))
            }
            Predicate::Like { pattern, ignores_case, negated } => {
                let place = self.bind(Value::Text(self.dialect.pattern(pattern)));
                // By code point, `lower` leaves all but ASCII as it is.
                let lower = || format!("lower({})", self.dialect.by_code_point(text));
                let text = if *ignores_case { lower() } else { text.to_owned() };
                negate(*negated, self.dialect.fits(&text, &place))
            }
            _ => self.ordered(text, predicate, |literal| Value::Text(as_text(literal))),
        }
    }

    fn time(&mut self, time: &str, predicate: &Predicate, value: impl Fn(Timestamp) -> Value) -> String {
        let value = |literal: &Literal| match literal {
            Literal::Time(time) => value(*time),
            _ => value(Timestamp::from_micros(0)),
        };
        self.ordered(time, predicate, value)
    }

    /// The predicates on an expression with an order.
    fn ordered(
        &mut self,
        expression: &str,
        predicate: &Predicate,
        value: impl Fn(&Literal) -> Value,
    ) -> String {
        match predicate {
            Predicate::Compare(comparison, literal) => {
                format!("{expression} {} {}", symbol(*comparison), self.bind(value(literal)))
            }
            Predicate::In { values, negated } => {
                let places: Vec<String> = values.iter().map(|literal| self.bind(value(literal))).collect();
                match places.as_slice() {
                    [place] => format!("{expression} {} {place}", if *negated { "<>" } else { "=" }),
                    places => negate(*negated, format!("{expression} in ({})", places.join(", "))),
                }
            }
            Predicate::Between { low, high, negated } => {
                let (low, high) = (self.bind(value(low)), self.bind(value(high)));
                negate(*negated, format!("{expression} between {low} and {high}"))
            }
            Predicate::IsNull { negated } => {
                format!("{expression} is {}null", if *negated { "not " } else { "" })
            }
            // The checker accepts `like` for texts only, which `text` handles.
            Predicate::Like { .. } => "false".to_owned(),
        }
    }

    /// Compares a whole number with numbers that may have a fraction or be too large.
    fn integer(&mut self, number: &str, predicate: &Predicate) -> String {
        match predicate {
            Predicate::Compare(comparison, literal) => self.compare_integer(number, *comparison, literal),
            Predicate::In { values, negated } => {
                let whole = values.iter().filter_map(|literal| match as_number(literal).floor() {
                    (floor, true) => Some(floor),
                    _ => None,
                });
                let whole: Vec<i64> = whole.collect();
                if whole.is_empty() {
                    return equals_none(number, *negated);
                }
                let list = self.bind(Value::Integers(whole));
                negate(*negated, self.dialect.is_one_of(number, &list))
            }
            Predicate::Between { low, high, negated } => {
                let low = self.compare_integer(number, Comparison::GreaterOrEqual, low);
                let high = self.compare_integer(number, Comparison::LessOrEqual, high);
                negate(*negated, format!("({low} and {high})"))
            }
            _ => self.ordered(number, predicate, |_| Value::Integer(0)),
        }
    }

    fn compare_integer(&mut self, number: &str, comparison: Comparison, literal: &Literal) -> String {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let (floor, exact) = as_number(literal).floor();
        let comparison = match (comparison, exact) {
            (Equal | NotEqual, false) => return equals_none(number, comparison == NotEqual),
            // The literal is between two whole numbers: "below" means up to the lower one, "above" means above it.
            (Less | LessOrEqual, false) => LessOrEqual,
            (Greater | GreaterOrEqual, false) => Greater,
            (comparison, true) => comparison,
        };
        format!("{number} {} {}", symbol(comparison), self.bind(Value::Integer(floor)))
    }

    fn spec(&mut self, path: &[Segment], predicate: &Predicate) -> String {
        let keys = path.iter().map(|segment| segment.key.clone()).collect();
        let path = self.bind(Value::Texts(keys));
        let dialect = self.dialect;
        let of_type =
            |json_type: &str| dialect.by_code_point(&format!("search_spec(r.spec, {path}, '{json_type}')"));
        match predicate {
            Predicate::IsNull { .. } => self.ordered(&of_type("any"), predicate, spec_key),
            Predicate::Like { .. } => self.text(&of_type("string"), predicate),
            Predicate::Compare(_, literal) | Predicate::Between { low: literal, .. } => {
                self.ordered(&of_type(json_type(literal)), predicate, spec_key)
            }
            Predicate::In { values, negated } => {
                let mut tests = Vec::new();
                for wanted in ["string", "number", "boolean"] {
                    let keys: Vec<String> =
                        values.iter().filter(|literal| json_type(literal) == wanted).map(as_text).collect();
                    if !keys.is_empty() {
                        let list = self.bind(Value::Texts(keys));
                        let found = self.dialect.is_one_of(&of_type(wanted), &list);
                        // The value is of one type at most, so all others are null here.
                        tests.push(format!("coalesce({}, false)", negate(*negated, found)));
                    }
                }
                format!("({})", tests.join(" or "))
            }
        }
    }

    fn condition(&mut self, kind: &str, part: ConditionPart, predicate: &Predicate) -> String {
        let name = ConditionPart::ALL.iter().find(|(_, known)| *known == part).map_or("", |(name, _)| name);
        self.reads_status = true;
        let kind = self.bind(Value::Text(kind.to_owned()));
        let text = format!("search_condition(s.conditions, {kind}, '{name}')");
        match part {
            ConditionPart::Status | ConditionPart::Reason | ConditionPart::Message => {
                self.text(&self.dialect.by_code_point(&text), predicate)
            }
            ConditionPart::ObservedGeneration => self.integer(&format!("cast({text} as bigint)"), predicate),
            ConditionPart::LastUpdatedTime | ConditionPart::LastTransitionTime => {
                let time =
                    format!("search_condition_time(s.conditions, s.last_updated_times, {kind}, '{name}')");
                self.time(&time, predicate, |time| Value::Integer(time.micros()))
            }
        }
    }
}

/// Whether a predicate on an id can be answered by the column as it is.
fn names_ids(predicate: &Predicate) -> bool {
    matches!(
        predicate,
        Predicate::In { .. }
            | Predicate::IsNull { .. }
            | Predicate::Compare(Comparison::Equal | Comparison::NotEqual, _)
    )
}

fn is_negated(predicate: &Predicate) -> bool {
    matches!(predicate, Predicate::IsNull { negated: true })
}

/// `not` of a test; null stays null.
fn negate(negated: bool, test: String) -> String {
    if negated { format!("not ({test})") } else { test }
}

fn symbol(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => "<>",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

/// A comparison with no possible value. It names the column, because PostgreSQL requires every bound value.
fn equals_none(number: &str, negated: bool) -> String {
    if negated { format!("{number} is not null") } else { format!("({number} is null and false)") }
}

pub(super) fn time_column(column: TimeColumn) -> &'static str {
    match column {
        TimeColumn::CreatedTime => "r.created_time",
        TimeColumn::UpdatedTime => "r.updated_time",
        TimeColumn::DeletedTime => "r.deleted_time",
    }
}

/// A literal as the text that stands for it among values of its type in a spec.
fn as_text(literal: &Literal) -> String {
    match literal {
        Literal::Text(text) => text.clone(),
        Literal::Number(number) => number.sort_key(),
        Literal::Bool(bool) => bool.to_string(),
        Literal::Time(time) => time.to_string(),
    }
}

fn spec_key(literal: &Literal) -> Value {
    Value::Text(as_text(literal))
}

fn json_type(literal: &Literal) -> &'static str {
    match literal {
        Literal::Text(_) | Literal::Time(_) => "string",
        Literal::Number(_) => "number",
        Literal::Bool(_) => "boolean",
    }
}

fn as_number(literal: &Literal) -> Decimal {
    match literal {
        Literal::Number(number) => number.clone(),
        _ => Decimal::from(0),
    }
}

/// A configured name as a literal.
fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\'', "''"))
}
