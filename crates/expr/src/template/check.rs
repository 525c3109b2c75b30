//! Goes over a parsed template once: what it names must be there, and what it reads of its scope is kept.

use std::collections::BTreeSet;

use gotmpl::parse::{BranchNode, CommandNode, Expr, ListNode, Node, PipeNode, Pos, TemplateNode};

use super::functions::{self, Function};
use super::{MAX_DEPTH, Program};
use crate::fault::{Fault, position};
use crate::names::{Name, hint};

/// Most pairs of a called template and what it is called with that are told apart.
const MAX_CALLS: usize = 1_000;

/// Where in the scope a value stands, if that is known before rendering.
type Place = Option<Vec<String>>;

pub(super) fn check(source: &str, program: &Program) -> Result<Vec<Name>, Fault> {
    let mut check = Check {
        source,
        program,
        variables: Vec::new(),
        names: Vec::new(),
        called: BTreeSet::new(),
        loops: 0,
        depth: 0,
    };
    for body in program.defined.values() {
        check.template(body, &None)?;
    }
    check.template(&program.body, &Some(Vec::new()))?;
    check.names.sort_by(|a, b| (a.line, a.column, &a.path).cmp(&(b.line, b.column, &b.path)));
    check.names.dedup();
    Ok(check.names)
}

struct Check<'t> {
    source: &'t str,
    program: &'t Program,
    variables: Vec<(&'t str, Place)>,
    names: Vec<Name>,
    called: BTreeSet<(&'t str, Place)>,
    /// How many loops are around.
    loops: usize,
    depth: usize,
}

impl<'t> Check<'t> {
    fn fault<T>(&self, at: Pos, message: &str) -> Result<T, Fault> {
        Err(Fault::new(position(self.source, at.offset), message))
    }

    /// A template sees no variable but `$`, which is what it is called with.
    fn template(&mut self, body: &'t ListNode, dot: &Place) -> Result<(), Fault> {
        let outer = std::mem::replace(&mut self.variables, vec![("$", dot.clone())]);
        let loops = std::mem::take(&mut self.loops);
        let checked = self.list(body, dot);
        self.variables = outer;
        self.loops = loops;
        checked
    }

    fn list(&mut self, list: &'t ListNode, dot: &Place) -> Result<(), Fault> {
        if self.depth == MAX_DEPTH {
            return self.fault(list.pos, &format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let checked = list.nodes.iter().try_for_each(|node| self.node(node, dot));
        self.depth -= 1;
        checked
    }

    fn node(&mut self, node: &'t Node, dot: &Place) -> Result<(), Fault> {
        match node {
            Node::List(list) => self.list(list, dot),
            Node::Action(action) => self.pipe(&action.pipe, dot).map(|_| ()),
            Node::If(branch) => self.branch(branch, dot, |_| dot.clone()),
            Node::With(branch) => self.branch(branch, dot, Clone::clone),
            Node::Range(branch) => {
                let variables = self.variables.len();
                self.command_chain(&branch.pipe, dot)?;
                for name in &branch.pipe.decl {
                    self.declare(&branch.pipe, name, None)?;
                }
                self.loops += 1;
                let checked = self.list(&branch.body, &None);
                self.loops -= 1;
                self.variables.truncate(variables);
                checked?;
                branch.else_body.as_ref().map_or(Ok(()), |list| self.list(list, dot))
            }
            Node::Template(call) => self.call(call, dot),
            Node::Break(at) | Node::Continue(at) if self.loops == 0 => {
                self.fault(*at, "{{break}} and {{continue}} stand in a {{range}}")
            }
            Node::Text(_) | Node::Define(_) | Node::Break(_) | Node::Continue(_) => Ok(()),
        }
    }

    fn branch(
        &mut self,
        branch: &'t BranchNode,
        dot: &Place,
        inner: impl FnOnce(&Place) -> Place,
    ) -> Result<(), Fault> {
        let variables = self.variables.len();
        let place = self.pipe(&branch.pipe, dot)?;
        self.list(&branch.body, &inner(&place))?;
        branch.else_body.as_ref().map_or(Ok(()), |list| self.list(list, dot))?;
        self.variables.truncate(variables);
        Ok(())
    }

    fn call(&mut self, call: &'t TemplateNode, dot: &Place) -> Result<(), Fault> {
        let place = call.pipe.as_ref().map_or(Ok(None), |pipe| self.pipe(pipe, dot))?;
        let Some((name, body)) = self.program.defined.get_key_value(call.name.as_str()) else {
            let known = self.program.defined.keys().map(String::as_str);
            return self
                .fault(call.pos, &format!("unknown template '{}'{}", call.name, hint(&call.name, known)));
        };
        if self.called.len() == MAX_CALLS || !self.called.insert((name, place.clone())) {
            return Ok(());
        }
        self.template(body, &place)
    }

    /// A pipeline with its declarations.
    fn pipe(&mut self, pipe: &'t PipeNode, dot: &Place) -> Result<Place, Fault> {
        let place = self.command_chain(pipe, dot)?;
        for name in &pipe.decl {
            self.declare(pipe, name, place.clone())?;
        }
        Ok(place)
    }

    fn declare(&mut self, pipe: &PipeNode, name: &'t str, place: Place) -> Result<(), Fault> {
        if !pipe.is_assign {
            self.variables.push((name, place));
            return Ok(());
        }
        match self.variables.iter_mut().rev().find(|(known, _)| *known == name) {
            // Whether it is assigned depends on where the render comes by.
            Some((_, known)) => *known = None,
            None => return self.fault(pipe.pos, &format!("unknown variable {name}")),
        }
        Ok(())
    }

    fn command_chain(&mut self, pipe: &'t PipeNode, dot: &Place) -> Result<Place, Fault> {
        let mut place = None;
        for (i, command) in pipe.commands.iter().enumerate() {
            place = self.command(command, dot, i > 0)?;
        }
        Ok(place)
    }

    fn command(&mut self, command: &'t CommandNode, dot: &Place, piped: bool) -> Result<Place, Fault> {
        let Some((first, args)) = command.args.split_first() else { return Ok(None) };
        for arg in args {
            self.expr(arg, dot)?;
        }
        let given = args.len() + usize::from(piped);
        match first {
            Expr::Identifier(at, name) => self.function(*at, name, given),
            Expr::Chain(at, inner, fields) if let Expr::Identifier(_, name) = &**inner => {
                let formats = fields.last().is_some_and(|last| last == "Format");
                self.function(*at, name, if formats { 0 } else { given })
            }
            Expr::Nil(at) => self.fault(*at, "nil is no command"),
            other => {
                let place = self.expr(other, dot)?;
                if given > 0 && !functions::is_method_call(other) {
                    return self.fault(other.pos(), "only functions take arguments");
                }
                Ok(place)
            }
        }
    }

    fn function(&self, at: Pos, name: &str, given: usize) -> Result<Place, Fault> {
        let Some(function) = Function::named(name) else {
            return self.fault(at, &format!("unknown function '{name}'{}", hint(name, functions::names())));
        };
        let (least, most) = function.takes();
        if given < least || given > most {
            let takes = if least == most {
                format!("{least}")
            } else if most == usize::MAX {
                format!("at least {least}")
            } else {
                format!("{least} to {most}")
            };
            let plural = if takes.ends_with('1') { "" } else { "s" };
            return self.fault(at, &format!("{name} takes {takes} argument{plural}, not {given}"));
        }
        Ok(None)
    }

    fn expr(&mut self, expr: &'t Expr, dot: &Place) -> Result<Place, Fault> {
        match expr {
            Expr::Dot(_) => Ok(dot.clone()),
            Expr::Field(at, fields) => Ok(self.read(*at, dot.clone(), fields)),
            Expr::Variable(at, name, fields) => {
                match self.variables.iter().rev().find(|(known, _)| *known == name.as_str()) {
                    Some((_, place)) => Ok(self.read(*at, place.clone(), fields)),
                    None => {
                        let known = self.variables.iter().map(|(known, _)| *known);
                        self.fault(*at, &format!("unknown variable {name}{}", hint(name, known)))
                    }
                }
            }
            Expr::Pipe(_, pipe) => self.command_chain(pipe, dot),
            Expr::Chain(at, inner, fields) => {
                let place = self.expr(inner, dot)?;
                Ok(self.read(*at, place, fields))
            }
            Expr::Identifier(at, name) => self.function(*at, name, 0),
            Expr::String(..) | Expr::Number(..) | Expr::Bool(..) | Expr::Nil(_) => Ok(None),
        }
    }

    /// Keeps the path of a value that is read.
    fn read(&mut self, at: Pos, place: Place, fields: &[impl AsRef<str>]) -> Place {
        let mut path = place?;
        path.extend(fields.iter().map(|field| field.as_ref().to_owned()));
        if !fields.is_empty() {
            let (line, column) = position(self.source, at.offset);
            self.names.push(Name { path: path.clone(), line, column });
        }
        Some(path)
    }
}
