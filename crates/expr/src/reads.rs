//! What a tree reads from its scope: the paths that start with a name that no loop of the tree binds.

use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr, operators};

use crate::lower::{is_namespace, text};
use crate::value::TYPES;

/// Calls whose first argument is the name of a variable that the others see.
const BINDING: [&str; 9] =
    ["all", "exists", "exists_one", "existsOne", "filter", "map", "optFlatMap", "optMap", "sortBy"];

/// The nodes of names and the paths that start there, in the order of the source.
pub(crate) fn reads(tree: &IdedExpr) -> Vec<(u64, Vec<String>)> {
    let mut reads = Reads { bound: Vec::new(), found: Vec::new() };
    reads.walk(tree, &mut Vec::new());
    reads.found
}

struct Reads<'t> {
    bound: Vec<&'t str>,
    found: Vec<(u64, Vec<String>)>,
}

impl<'t> Reads<'t> {
    /// Walks what a path of members is read from, the last member first.
    fn walk(&mut self, tree: &'t IdedExpr, members: &mut Vec<&'t str>) {
        match &tree.expr {
            Expr::Ident(name) if self.bound.contains(&name.as_str()) || TYPES.contains(&name.as_str()) => {}
            Expr::Ident(name) => {
                let members = members.iter().rev().map(|member| (*member).to_owned());
                self.found.push((tree.id, std::iter::once(name.clone()).chain(members).collect()));
            }
            Expr::Select(select) => {
                members.push(&select.field);
                self.walk(&select.operand, members);
                members.pop();
            }
            Expr::Call(call) => match (&call.target, call.args.as_slice()) {
                (None, [of, at]) if call.func_name == operators::INDEX && text(at).is_some() => {
                    members.extend(text(at));
                    self.walk(of, members);
                    members.pop();
                }
                (None, [arg]) if call.func_name == "has" => match &arg.expr {
                    Expr::Select(select) => self.all([&*select.operand]),
                    _ => self.all([arg]),
                },
                (Some(target), args) => {
                    let in_namespace = matches!(&target.expr, Expr::Ident(space)
                        if !self.bound.contains(&space.as_str()) && is_namespace(space));
                    if !in_namespace {
                        self.all([&**target]);
                    }
                    match args {
                        [IdedExpr { expr: Expr::Ident(variable), .. }, rest @ ..]
                            if BINDING.contains(&call.func_name.as_str()) =>
                        {
                            self.bound.push(variable);
                            self.all(rest);
                            self.bound.pop();
                        }
                        _ => self.all(args),
                    }
                }
                (None, args) => self.all(args),
            },
            Expr::List(list) => self.all(&list.elements),
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.all([&entry.key, &entry.value]);
                    }
                }
            }
            _ => {}
        }
    }

    fn all(&mut self, trees: impl IntoIterator<Item = &'t IdedExpr>) {
        for tree in trees {
            self.walk(tree, &mut Vec::new());
        }
    }
}
