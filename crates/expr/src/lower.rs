//! From a syntax tree to a program: names are resolved, functions looked up, patterns compiled. A tree that
//! cannot be evaluated for such a reason is refused here, so that a mistake shows at start and not with
//! the first report.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators};

use crate::dialect::Dialect;
use crate::functions::{FUNCTIONS, Function, Style};
use crate::names::hint;
use crate::program::{Literal, Loop, Node, Operator, Pattern};
use crate::value::TYPES;

/// Deepest nesting of a tree. An evaluation is as deep as its tree, and must not run out of stack.
pub(crate) const MAX_DEPTH: usize = 64;

/// Calls that the program itself knows, for hints.
const MACROS: [&str; 13] = [
    "all",
    "exists",
    "exists_one",
    "existsOne",
    "filter",
    "has",
    "map",
    "matches",
    "optFlatMap",
    "optMap",
    "or",
    "orValue",
    "sortBy",
];

/// What is wrong, with which node, and how far before its token: a call's is the parenthesis.
pub(crate) struct Wrong {
    pub(crate) at: u64,
    pub(crate) back: usize,
    pub(crate) message: String,
}

fn fault<T>(at: &IdedExpr, message: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { at: at.id, back: 0, message: message.into() })
}

fn fault_of_call<T>(at: &IdedExpr, name: &str, message: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { at: at.id, back: name.len(), message: message.into() })
}

/// Turns a tree into a program. The variables come first in an evaluation's memory, then what the
/// surrounding loops bind.
pub(crate) struct Lowering {
    dialect: Dialect,
    names: Vec<String>,
    depth: usize,
}

impl Lowering {
    pub(crate) fn new(dialect: Dialect, variables: &[Box<str>]) -> Self {
        Self { dialect, names: variables.iter().map(ToString::to_string).collect(), depth: 0 }
    }

    pub(crate) fn lower(&mut self, tree: &IdedExpr) -> Result<Node, Wrong> {
        if self.depth == MAX_DEPTH {
            return fault(tree, format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let node = self.lower_node(tree);
        self.depth -= 1;
        node
    }

    fn boxed(&mut self, tree: &IdedExpr) -> Result<Box<Node>, Wrong> {
        self.lower(tree).map(Box::new)
    }

    fn pair(&mut self, a: &IdedExpr, b: &IdedExpr) -> Result<Box<[Node; 2]>, Wrong> {
        Ok(Box::new([self.lower(a)?, self.lower(b)?]))
    }

    fn lower_node(&mut self, tree: &IdedExpr) -> Result<Node, Wrong> {
        Ok(match &tree.expr {
            Expr::Literal(literal) => Node::Literal(self.literal(tree, literal)?),
            Expr::Ident(name) => self.name(tree, name)?,
            Expr::Select(select) => Node::Select {
                of: self.boxed(&select.operand)?,
                field: select.field.as_str().into(),
                optional: false,
            },
            Expr::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (i, item) in list.elements.iter().enumerate() {
                    items.push((self.lower(item)?, list.optional_indices.contains(&i)));
                }
                Node::List(items)
            }
            Expr::Map(map) => {
                let mut entries = Vec::with_capacity(map.entries.len());
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return fault(tree, "messages are not supported");
                    };
                    entries.push((self.lower(&entry.key)?, self.lower(&entry.value)?, entry.optional));
                }
                Node::Map(entries)
            }
            Expr::Call(call) => self.call(tree, call)?,
            Expr::Struct(_) => return fault(tree, "messages are not supported"),
            Expr::Comprehension(_) | Expr::Unspecified => return fault(tree, "cannot be read"),
        })
    }

    fn literal(&self, tree: &IdedExpr, literal: &LiteralValue) -> Result<Literal, Wrong> {
        Ok(match literal {
            LiteralValue::Null => Literal::Null,
            LiteralValue::Boolean(held) => Literal::Bool(*held.inner()),
            LiteralValue::Int(whole) => Literal::Int(*whole.inner()),
            LiteralValue::UInt(whole) => Literal::UInt(*whole.inner()),
            LiteralValue::Double(real) => Literal::Double(*real.inner()),
            LiteralValue::String(text) => Literal::Text(text.inner().into()),
            LiteralValue::Bytes(_) => return fault(tree, "bytes are not supported"),
        })
    }

    fn name(&self, tree: &IdedExpr, name: &str) -> Result<Node, Wrong> {
        if let Some(slot) = self.names.iter().rposition(|known| known == name) {
            return Ok(Node::Variable(slot));
        }
        if let Some(known) = TYPES.iter().find(|known| **known == name) {
            return Ok(Node::Literal(Literal::Type(known)));
        }
        let hint = hint(name, self.names.iter().map(String::as_str).filter(|known| !known.ends_with("()")));
        fault(tree, format!("unknown name '{name}'{hint}"))
    }

    fn call(&mut self, tree: &IdedExpr, call: &CallExpr) -> Result<Node, Wrong> {
        match (&call.target, call.args.as_slice()) {
            (None, args) if !is_plain(&call.func_name) => self.operation(tree, &call.func_name, args),
            (None, args) => self.global(tree, &call.func_name, args),
            (Some(target), args) => match &target.expr {
                Expr::Ident(space) if is_namespace(space) && !self.names.contains(space) => {
                    self.global(tree, &format!("{space}.{}", call.func_name), args)
                }
                _ => self.member(tree, &call.func_name, target, args),
            },
        }
    }

    fn operation(&mut self, tree: &IdedExpr, name: &str, args: &[IdedExpr]) -> Result<Node, Wrong> {
        Ok(match (name, args) {
            (operators::CONDITIONAL, [a, b, c]) => {
                Node::If(Box::new([self.lower(a)?, self.lower(b)?, self.lower(c)?]))
            }
            (operators::LOGICAL_AND, [a, b]) => Node::And(self.pair(a, b)?),
            (operators::LOGICAL_OR, [a, b]) => Node::Or(self.pair(a, b)?),
            (operators::LOGICAL_NOT, [a]) => Node::Not(self.boxed(a)?),
            (operators::NEGATE, [a]) => Node::Negate(self.boxed(a)?),
            (operators::INDEX | operators::OPT_INDEX, [a, b]) => {
                Node::Index { of: self.boxed(a)?, at: self.boxed(b)?, optional: name == operators::OPT_INDEX }
            }
            (operators::OPT_SELECT, [a, b]) => {
                let Some(field) = text(b) else { return fault(tree, "cannot be read") };
                Node::Select { of: self.boxed(a)?, field: field.into(), optional: true }
            }
            (name, [a, b]) => match Operator::named(name) {
                Some(operator) => Node::Binary(operator, self.pair(a, b)?),
                None => return fault(tree, "cannot be read"),
            },
            _ => return fault(tree, "cannot be read"),
        })
    }

    fn global(&mut self, tree: &IdedExpr, name: &str, args: &[IdedExpr]) -> Result<Node, Wrong> {
        match (name, args) {
            ("has", [arg]) => match &arg.expr {
                Expr::Select(select) => {
                    Ok(Node::Has { of: self.boxed(&select.operand)?, field: select.field.as_str().into() })
                }
                _ => fault(arg, "has() asks for a member, as in has(a.b)"),
            },
            ("has", _) => fault_of_call(tree, name, "has() takes one argument"),
            ("matches", [text, pattern]) => self.matches(text, pattern),
            (name, [of]) if let Some(list) = self.lookup(name) => self.find(list, of),
            _ => self.function(tree, name, Style::Global, args.iter().collect()),
        }
    }

    fn member(
        &mut self,
        tree: &IdedExpr,
        name: &str,
        target: &IdedExpr,
        args: &[IdedExpr],
    ) -> Result<Node, Wrong> {
        let kind = match name {
            "all" => Loop::All,
            "exists" => Loop::Exists,
            "exists_one" | "existsOne" => Loop::ExistsOne,
            "filter" => Loop::Filter,
            "map" => Loop::Map,
            _ => return self.member_function(tree, name, target, args),
        };
        let range = self.lower(target)?;
        match args {
            [variable, body] => {
                let body = self.bound(name, variable, |lowering| lowering.lower(body))?;
                Ok(Node::Loop(kind, Box::new([range, body])))
            }
            [variable, guard, body] if kind == Loop::Map => {
                let both = |lowering: &mut Self| Ok((lowering.lower(guard)?, lowering.lower(body)?));
                let (guard, body) = self.bound(name, variable, both)?;
                Ok(Node::Collect(Box::new([range, guard, body])))
            }
            _ => fault_of_call(
                tree,
                name,
                format!("{name}() takes a variable and an expression, as in x.{name}(v, …)"),
            ),
        }
    }

    fn member_function(
        &mut self,
        tree: &IdedExpr,
        name: &str,
        target: &IdedExpr,
        args: &[IdedExpr],
    ) -> Result<Node, Wrong> {
        match (name, args) {
            ("or" | "orValue", [other]) => Ok(Node::Else {
                of: self.boxed(target)?,
                other: self.boxed(other)?,
                unwrap: name == "orValue",
            }),
            ("optMap" | "optFlatMap", [variable, body]) => {
                let of = self.boxed(target)?;
                let body = self.bound(name, variable, |lowering| lowering.boxed(body))?;
                Ok(Node::With { of, body, flat: name == "optFlatMap" })
            }
            ("or" | "orValue" | "optMap" | "optFlatMap", _) => {
                fault_of_call(tree, name, format!("{name}() does not take {} arguments", args.len()))
            }
            ("matches", [pattern]) => self.matches(target, pattern),
            ("sortBy", [variable, key]) => {
                let of = self.lower(target)?;
                let key = self.bound(name, variable, |lowering| lowering.lower(key))?;
                Ok(Node::SortBy(Box::new([of, key])))
            }
            _ => self.function(tree, name, Style::Member, std::iter::once(target).chain(args).collect()),
        }
    }

    fn function(
        &mut self,
        tree: &IdedExpr,
        name: &str,
        style: Style,
        args: Vec<&IdedExpr>,
    ) -> Result<Node, Wrong> {
        let known: Vec<_> = FUNCTIONS
            .iter()
            .filter(|(known, _, _, function)| *known == name && self.knows(*function))
            .collect();
        let styled = || known.iter().filter(|(_, known, ..)| *known == style);
        if let Some((.., function)) = styled().find(|(_, _, count, _)| *count == args.len()) {
            let args = args.into_iter().map(|arg| self.lower(arg)).collect::<Result<_, _>>()?;
            return Ok(Node::Call(*function, args));
        }
        let receiver = usize::from(style == Style::Member);
        let counts: Vec<_> = styled().map(|(_, _, count, _)| (count - receiver).to_string()).collect();
        let wrong = if !counts.is_empty() {
            let plural = if counts == ["1"] { "" } else { "s" };
            format!("{name}() takes {} argument{plural}, not {}", counts.join(" or "), args.len() - receiver)
        } else if known.is_empty() {
            let own = self.names.iter().filter_map(|known| known.strip_suffix("()"));
            let all = FUNCTIONS.iter().filter(|(.., function)| self.knows(*function)).map(|(name, ..)| *name);
            format!("unknown function '{name}'{}", hint(name, all.chain(MACROS).chain(own)))
        } else if style == Style::Global {
            format!("{name}() is called on a value, as in x.{name}(…)")
        } else {
            format!("{name}() stands alone, as in {name}(…)")
        };
        fault_of_call(tree, name, wrong)
    }

    fn knows(&self, function: Function) -> bool {
        self.dialect == Dialect::Task || !function.needs_clock()
    }

    /// The list behind a function of the scope.
    fn lookup(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known.strip_suffix("()") == Some(name))
    }

    /// What has this type in a list, or else the list's first.
    fn find(&mut self, list: usize, of: &IdedExpr) -> Result<Node, Wrong> {
        let item = self.names.len();
        self.names.push(String::new());
        let of = self.lower(of);
        self.names.pop();
        let kind = Node::Select { of: Box::new(Node::Variable(item)), field: "type".into(), optional: false };
        let same = Node::Binary(Operator::Equal, Box::new([kind, of?]));
        let found = Node::Loop(Loop::Filter, Box::new([Node::Variable(list), same]));
        let first = |of: Node, optional| {
            let at = Box::new(Node::Literal(Literal::Int(0)));
            Box::new(Node::Index { of: Box::new(of), at, optional })
        };
        Ok(Node::Else { of: first(found, true), other: first(Node::Variable(list), false), unwrap: true })
    }

    /// Lowers what sees one more variable.
    fn bound<T>(
        &mut self,
        name: &str,
        variable: &IdedExpr,
        lower: impl FnOnce(&mut Self) -> Result<T, Wrong>,
    ) -> Result<T, Wrong> {
        let Expr::Ident(variable_name) = &variable.expr else {
            return fault(variable, format!("{name}() takes the name of a variable first"));
        };
        self.names.push(variable_name.clone());
        let lowered = lower(self);
        self.names.pop();
        lowered
    }

    /// The pattern of a rule must be a literal: compiled once, and not for others to choose.
    fn matches(&mut self, of: &IdedExpr, pattern: &IdedExpr) -> Result<Node, Wrong> {
        let Some(source) = text(pattern) else {
            if self.dialect == Dialect::Task {
                return Ok(Node::MatchesAny(self.pair(of, pattern)?));
            }
            return fault(pattern, "the pattern of matches() must be a literal text");
        };
        let Some(compiled) = Pattern::compile(source) else {
            return fault(
                pattern,
                "the pattern of matches() is not a regular expression, or too large a one",
            );
        };
        Ok(Node::Matches(self.boxed(of)?, Box::new(compiled)))
    }
}

/// Operators have names that the grammar does not allow for functions.
fn is_plain(name: &str) -> bool {
    !name.starts_with(['_', '!', '-', '@']) || name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Namespaces look like variables that do not exist.
pub(crate) fn is_namespace(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, ..)| known.split_once('.').is_some_and(|(space, _)| space == name))
}

pub(crate) fn text(tree: &IdedExpr) -> Option<&str> {
    match &tree.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}
