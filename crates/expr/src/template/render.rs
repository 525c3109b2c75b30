//! Renders a template within a fixed number of steps. Each node costs a step, and what is written or made costs steps in
//! proportion, taken before it is made; so a template that calls itself twice ends as surely as one that doubles a text.

use gotmpl::parse::{BranchNode, CommandNode, Expr, ListNode, Node, Number, PipeNode, Pos};
use serde_json::{Map as Object, Value as Json};

use super::functions::{self, Function};
use super::print::print;
use super::{MAX_DEPTH, Program};
use crate::fault::{Fault, position};
use crate::scope::{Mask, Members};
use crate::value::{Key, Map, Text, Value};

/// Longest output in bytes.
pub(super) const MAX_OUTPUT: usize = 1 << 20;

/// Steps of one render.
const STEPS: u64 = 1_000_000;

/// Bytes that one step reads or writes.
const BYTES_PER_STEP: usize = 16;

/// Times that the bodies of loops are rendered, all loops together.
const MAX_ITERATIONS: usize = 10_000;

/// Why a render ended early.
pub(super) enum Stop {
    Failed(Pos, String),
    Break,
    Continue,
}

impl Stop {
    pub(super) fn fault(self, source: &str) -> Fault {
        match self {
            Self::Failed(at, message) => Fault::new(position(source, at.offset), &message),
            Self::Break | Self::Continue => Fault::of_all("{{break}} stands in no {{range}}"),
        }
    }
}

pub(super) fn render(program: &Program, scope: &Object<String, Json>, now: i64) -> Result<String, Stop> {
    let scope = Value::Map(Map::Given(Members(scope, Mask::Nothing)));
    let variables = vec![("$", scope.clone())];
    let mut render = Render {
        program,
        now,
        output: String::new(),
        variables,
        visible: 0,
        budget: Budget { steps: STEPS },
        iterations: 0,
        depth: 0,
    };
    render.list(&program.body, &scope)?;
    Ok(render.output)
}

/// The steps that are left.
pub(super) struct Budget {
    steps: u64,
}

impl Budget {
    pub(super) fn spend(&mut self, steps: u64) -> Result<(), String> {
        let left = self.steps.checked_sub(steps);
        self.steps = left.unwrap_or(0);
        left.map(|_| ()).ok_or_else(|| format!("takes more than {STEPS} steps"))
    }

    pub(super) fn spend_text(&mut self, bytes: usize) -> Result<(), String> {
        self.spend((bytes / BYTES_PER_STEP) as u64)
    }
}

struct Render<'s> {
    program: &'s Program,
    now: i64,
    output: String,
    variables: Vec<(&'s str, Value<'s>)>,
    /// The variables from here on are seen; those before are of templates that called this one.
    visible: usize,
    budget: Budget,
    iterations: usize,
    depth: usize,
}

impl<'s> Render<'s> {
    fn list(&mut self, list: &'s ListNode, dot: &Value<'s>) -> Result<(), Stop> {
        if self.depth == MAX_DEPTH {
            return Err(Stop::Failed(list.pos, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let rendered = list.nodes.iter().try_for_each(|node| self.node(node, dot));
        self.depth -= 1;
        rendered
    }

    fn node(&mut self, node: &'s Node, dot: &Value<'s>) -> Result<(), Stop> {
        match node {
            Node::Text(text) => self.write(text.pos, &text.text),
            Node::Action(action) => {
                let value = self.pipe(&action.pipe, dot)?;
                if !action.pipe.decl.is_empty() {
                    return Ok(());
                }
                match value {
                    Value::Null => self.write(action.pos, "<no value>"),
                    Value::Text(text) => self.write(action.pos, &text),
                    value => {
                        let mut text = String::new();
                        let printed = print(&mut self.budget, &mut text, &value, 0);
                        printed.map_err(|message| Stop::Failed(action.pos, message))?;
                        self.write(action.pos, &text)
                    }
                }
            }
            Node::If(branch) => self.branch(branch, dot, false),
            Node::With(branch) => self.branch(branch, dot, true),
            Node::Range(branch) => self.range(branch, dot),
            Node::Template(call) => {
                self.spend(call.pos)?;
                let dot = call.pipe.as_ref().map_or(Ok(Value::Null), |pipe| self.pipe(pipe, dot))?;
                let Some(body) = self.program.defined.get(call.name.as_str()) else {
                    return Err(Stop::Failed(call.pos, format!("unknown template '{}'", call.name)));
                };
                let visible = std::mem::replace(&mut self.visible, self.variables.len());
                self.variables.push(("$", dot.clone()));
                let rendered = self.list(body, &dot);
                self.variables.truncate(self.visible);
                self.visible = visible;
                rendered
            }
            Node::List(list) => self.list(list, dot),
            Node::Define(_) => Ok(()),
            Node::Break(_) => Err(Stop::Break),
            Node::Continue(_) => Err(Stop::Continue),
        }
    }

    fn spend(&mut self, at: Pos) -> Result<(), Stop> {
        self.budget.spend(1).map_err(|message| Stop::Failed(at, message))
    }

    fn write(&mut self, at: Pos, text: &str) -> Result<(), Stop> {
        self.spend(at)?;
        self.budget.spend_text(text.len()).map_err(|message| Stop::Failed(at, message))?;
        if self.output.len() + text.len() > MAX_OUTPUT {
            return Err(Stop::Failed(at, format!("the output is longer than {MAX_OUTPUT} bytes")));
        }
        self.output.push_str(text);
        Ok(())
    }

    fn branch(&mut self, branch: &'s BranchNode, dot: &Value<'s>, moves: bool) -> Result<(), Stop> {
        let variables = self.variables.len();
        let value = self.pipe(&branch.pipe, dot)?;
        let rendered = if functions::truth(&value) {
            self.list(&branch.body, if moves { &value } else { dot })
        } else {
            branch.else_body.as_ref().map_or(Ok(()), |list| self.list(list, dot))
        };
        self.variables.truncate(variables);
        rendered
    }

    fn range(&mut self, branch: &'s BranchNode, dot: &Value<'s>) -> Result<(), Stop> {
        let fail = |message: String| Stop::Failed(branch.pos, message);
        let variables = self.variables.len();
        let range = self.commands(&branch.pipe, dot)?;
        let mut empty = true;
        match &range {
            Value::List(list) => {
                for at in 0..list.len() {
                    empty = false;
                    let Some(item) = list.get(at) else { break };
                    if !self.turn(branch, Value::Int(at as i64), &item)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                self.budget.spend(map.len() as u64).map_err(fail)?;
                for key in map.keys() {
                    empty = false;
                    let Some(item) = map.get(&key) else { break };
                    if !self.turn(branch, key.into(), &item)? {
                        break;
                    }
                }
            }
            Value::Int(_) if branch.pipe.decl.len() > 1 => {
                return Err(fail("a loop over a whole number has one variable".to_owned()));
            }
            Value::Int(count) => {
                for i in 0..*count {
                    empty = false;
                    if !self.turn(branch, Value::Int(i), &Value::Int(i))? {
                        break;
                    }
                }
            }
            Value::Null => {}
            other => {
                return Err(fail(format!(
                    "range goes over a list, a map or a whole number, not {}",
                    other.kind()
                )));
            }
        }
        if empty && let Some(list) = &branch.else_body {
            self.list(list, dot)?;
        }
        self.variables.truncate(variables);
        Ok(())
    }

    /// One turn of a loop; whether there may be another.
    fn turn(&mut self, branch: &'s BranchNode, key: Value<'s>, item: &Value<'s>) -> Result<bool, Stop> {
        self.spend(branch.pos)?;
        self.iterations += 1;
        if self.iterations > MAX_ITERATIONS {
            return Err(Stop::Failed(branch.pos, format!("loops take more than {MAX_ITERATIONS} turns")));
        }
        let variables = self.variables.len();
        match branch.pipe.decl.as_slice() {
            [] => {}
            [value] => self.declare(&branch.pipe, value, item.clone()),
            [index, value, ..] => {
                self.declare(&branch.pipe, index, key);
                self.declare(&branch.pipe, value, item.clone());
            }
        }
        let turned = self.list(&branch.body, item);
        self.variables.truncate(variables);
        match turned {
            Ok(()) | Err(Stop::Continue) => Ok(true),
            Err(Stop::Break) => Ok(false),
            Err(stop) => Err(stop),
        }
    }

    fn declare(&mut self, pipe: &PipeNode, name: &'s str, value: Value<'s>) {
        let known = self.variables[self.visible..].iter_mut().rev().find(|(known, _)| *known == name);
        match known {
            Some((_, known)) if pipe.is_assign => *known = value,
            _ => self.variables.push((name, value)),
        }
    }

    fn pipe(&mut self, pipe: &'s PipeNode, dot: &Value<'s>) -> Result<Value<'s>, Stop> {
        let value = self.commands(pipe, dot)?;
        for name in &pipe.decl {
            self.declare(pipe, name, value.clone());
        }
        Ok(value)
    }

    fn commands(&mut self, pipe: &'s PipeNode, dot: &Value<'s>) -> Result<Value<'s>, Stop> {
        let mut value = None;
        for command in &pipe.commands {
            value = Some(self.command(command, dot, value)?);
        }
        Ok(value.unwrap_or(Value::Null))
    }

    fn command(
        &mut self,
        command: &'s CommandNode,
        dot: &Value<'s>,
        piped: Option<Value<'s>>,
    ) -> Result<Value<'s>, Stop> {
        let Some((first, args)) = command.args.split_first() else { return Ok(Value::Null) };
        match first {
            Expr::Identifier(at, name) => self.call(*at, name, args, dot, piped),
            Expr::Chain(at, inner, fields) if let Expr::Identifier(_, name) = &**inner => {
                if functions::is_method_call(first) {
                    let of = self.call(*at, name, &[], dot, None)?;
                    return self.method(*at, of, fields, args, dot, piped);
                }
                let value = self.call(*at, name, args, dot, piped)?;
                fields.iter().try_fold(value, |value, field| self.member(*at, &value, field))
            }
            Expr::Variable(at, name, fields) if functions::is_method_call(first) => {
                let of = self.variable(*at, name)?;
                self.method(*at, of, fields, args, dot, piped)
            }
            Expr::Chain(at, inner, fields) if functions::is_method_call(first) => {
                let of = self.expr(inner, dot)?;
                self.method(*at, of, fields, args, dot, piped)
            }
            first => self.expr(first, dot),
        }
    }

    /// `t.Format "2006-01-02"`: the one method with an argument that a value has.
    fn method(
        &mut self,
        at: Pos,
        of: Value<'s>,
        fields: &'s [impl AsRef<str>],
        args: &'s [Expr],
        dot: &Value<'s>,
        piped: Option<Value<'s>>,
    ) -> Result<Value<'s>, Stop> {
        let Some((_, fields)) = fields.split_last() else { return Ok(of) };
        let time = fields.iter().try_fold(of, |value, field| self.member(at, &value, field.as_ref()))?;
        let mut values = Vec::with_capacity(2);
        for arg in args {
            values.push(self.expr(arg, dot)?);
        }
        values.extend(piped);
        values.push(time);
        if values.len() != 2 {
            return Err(Stop::Failed(at, "Format takes 1 argument, a layout".to_owned()));
        }
        Function::Date.call(&mut self.budget, self.now, &values).map_err(|message| Stop::Failed(at, message))
    }

    fn call(
        &mut self,
        at: Pos,
        name: &str,
        args: &'s [Expr],
        dot: &Value<'s>,
        piped: Option<Value<'s>>,
    ) -> Result<Value<'s>, Stop> {
        self.spend(at)?;
        let Some(function) = Function::named(name) else {
            return Err(Stop::Failed(at, format!("unknown function '{name}'")));
        };
        if let Some(decisive) = function.decided_by() {
            // Both decide by the first argument that can, and look at no other.
            let mut last = Value::Null;
            for arg in args {
                last = self.expr(arg, dot)?;
                if functions::truth(&last) == decisive {
                    return Ok(last);
                }
            }
            return Ok(piped.unwrap_or(last));
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        for arg in args {
            values.push(self.expr(arg, dot)?);
        }
        values.extend(piped);
        function.call(&mut self.budget, self.now, &values).map_err(|message| Stop::Failed(at, message))
    }

    fn expr(&mut self, expr: &'s Expr, dot: &Value<'s>) -> Result<Value<'s>, Stop> {
        self.spend(expr.pos())?;
        Ok(match expr {
            Expr::Dot(_) => dot.clone(),
            Expr::Field(at, fields) => {
                fields.iter().try_fold(dot.clone(), |value, field| self.member(*at, &value, field))?
            }
            Expr::Variable(at, name, fields) => {
                let value = self.variable(*at, name)?;
                fields.iter().try_fold(value, |value, field| self.member(*at, &value, field))?
            }
            Expr::Chain(at, inner, fields) => {
                let value = self.expr(inner, dot)?;
                fields.iter().try_fold(value, |value, field| self.member(*at, &value, field))?
            }
            Expr::Pipe(_, pipe) => self.commands(pipe, dot)?,
            Expr::Identifier(at, name) => self.call(*at, name, &[], dot, None)?,
            Expr::String(_, text) => Value::Text(Text::Given(text)),
            Expr::Number(_, Number::Int(whole)) => Value::Int(*whole),
            Expr::Number(_, Number::Uint(whole)) => Value::UInt(*whole),
            Expr::Number(_, Number::Float(real)) => Value::Double(*real),
            Expr::Bool(_, held) => Value::Bool(*held),
            Expr::Nil(_) => Value::Null,
        })
    }

    fn variable(&self, at: Pos, name: &str) -> Result<Value<'s>, Stop> {
        let found = self.variables[self.visible..].iter().rev().find(|(known, _)| *known == name);
        found
            .map(|(_, value)| value.clone())
            .ok_or_else(|| Stop::Failed(at, format!("unknown variable {name}")))
    }

    fn member(&mut self, at: Pos, of: &Value<'s>, name: &str) -> Result<Value<'s>, Stop> {
        self.spend(at)?;
        match of {
            Value::Map(map) => map
                .get(&Key::Text(Text::Given(name)))
                .ok_or_else(|| Stop::Failed(at, format!("nothing is known as .{name} here"))),
            Value::Time(micros) => functions::part_of_time(*micros, name)
                .ok_or_else(|| Stop::Failed(at, format!("a time has no .{name} here"))),
            Value::Null => Err(Stop::Failed(at, format!("there is no .{name} of nil"))),
            other => Err(Stop::Failed(at, format!("{} has no member {name}", other.kind()))),
        }
    }
}
