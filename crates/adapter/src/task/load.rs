//! Reads a task file: every key with its default, every fault at once, each with its line and column.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::build::{self, read_build};
use super::finding::{Finding, Severity};
use super::jsonpath::JsonPath;
use super::model::{
    Action, ApiCall, Backoff, By, Capture, Condition, Declared, Delete, Discovery, Extract, LogAction,
    Manifest, Nested, Operator, Param, ParamKind, Payload, Precondition, Source, StatusForm, TargetClient,
    Task, Test,
};
use super::reader::{Findings, Mapping, check_names, expression, names, template};
use super::source::Text;
use super::yaml::{self, Content, Node, Position};
use crate::files;
use crate::targets::Propagation;

/// Largest file of a task.
const MAX_FILE: u64 = 4 << 20;

/// Names that the framework fills.
const BUILT_IN: [&str; 8] = ["adapter", "resources", "env", "event", "config", "params", "metadata", "now"];

/// What a task is loaded with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `compatibility: go-0.2`, whatever the file says.
    pub as_go: bool,
    /// The target of resources that name none.
    pub default_client: Option<TargetClient>,
}

/// A task, if it runs, and everything that was found.
#[derive(Debug)]
pub struct Loaded {
    /// Nothing when there is an error among the findings.
    pub task: Option<Task>,
    /// Errors first, then warnings, by place.
    pub findings: Vec<Finding>,
}

impl Task {
    /// Reads a file and the files that it refers to.
    pub fn load(path: &Path, options: &Options) -> Loaded {
        let name = path.display().to_string();
        let findings = Findings::of(&name);
        match files::read(path, MAX_FILE) {
            Ok(text) => Self::parse(&text, &name, path.parent().unwrap_or(Path::new(".")), options),
            Err(message) => {
                findings.error(Position { line: 1, column: 1 }, "A100", message);
                Loaded { task: None, findings: findings.into_sorted() }
            }
        }
    }

    /// Reads a text; files that it refers to are below `directory`.
    pub fn parse(text: &str, name: &str, directory: &Path, options: &Options) -> Loaded {
        let findings = Findings::of(name);
        let root = match yaml::parse(text) {
            Ok(root) => root,
            Err(error) => {
                findings.error(error.at, "A100", error.message);
                return Loaded { task: None, findings: findings.into_sorted() };
            }
        };
        let task = Loader::new(&findings, directory, options).task(&root);
        let findings = findings.into_sorted();
        let is_sound = findings.iter().all(|finding| finding.severity != Severity::Error);
        Loaded { task: task.filter(|_| is_sound), findings }
    }
}

struct Loader<'a> {
    findings: &'a Findings,
    directory: &'a Path,
    options: &'a Options,
    /// Names that expressions and templates may use where the reading stands.
    known: BTreeSet<String>,
    environment: BTreeSet<String>,
    payloads: BTreeSet<String>,
}

impl<'a> Loader<'a> {
    fn new(findings: &'a Findings, directory: &'a Path, options: &'a Options) -> Self {
        let known = BUILT_IN.iter().map(|name| (*name).to_owned()).collect();
        Self { findings, directory, options, known, environment: BTreeSet::new(), payloads: BTreeSet::new() }
    }

    fn task(&mut self, root: &Node) -> Option<Task> {
        let mut top = Mapping::of(root, "", self.findings)?;
        let compatibility = top.choice("compatibility", &[("go-0.2", true), ("none", false)]);
        let params: Vec<_> =
            top.mappings("params").into_iter().filter_map(|param| self.param(param)).collect();
        let preconditions: Vec<_> =
            top.mappings("preconditions").into_iter().filter_map(|one| self.precondition(one)).collect();
        let resources = self.resources(top.mappings("resources"));
        let (payloads, actions) = match top.mapping("post") {
            Some(post) => self.post(post),
            None => (Vec::new(), Vec::new()),
        };
        let status = top.mapping("status").and_then(|status| self.status(status));
        if status.is_some() && !actions.is_empty() {
            let message = "status replaces the report of post.post_actions; keep one of them";
            self.findings.warning(top.at(), "A104", message);
        }
        top.finish();
        let mut environment: BTreeSet<String> = std::mem::take(&mut self.environment);
        environment.extend(build::environment(root));
        Some(Task {
            params,
            preconditions,
            resources,
            payloads,
            actions,
            status,
            environment: environment.into_iter().collect(),
            as_go: self.options.as_go || compatibility.unwrap_or(false),
        })
    }

    fn define(&mut self, name: &str, at: Position) {
        if BUILT_IN.contains(&name) {
            self.findings.error(at, "A203", format!("{name} is the name of something of the framework's"));
        }
        self.known.insert(name.to_owned());
    }

    fn param(&mut self, mut param: Mapping<'_>) -> Option<Param> {
        let at = param.at();
        let name = param.required_text("name").map(str::to_owned);
        param.text("description");
        let kind = param.choice(
            "type",
            &[
                ("string", ParamKind::Text),
                ("int", ParamKind::Integer),
                ("int64", ParamKind::Integer),
                ("float", ParamKind::Real),
                ("float64", ParamKind::Real),
                ("bool", ParamKind::Bool),
            ],
        );
        let required = param.bool("required");
        let default = param.value("default");
        let source = match param.get("source") {
            None => {
                param.missing("source");
                None
            }
            Some(node) => self.source(node, &param),
        };
        if let Some(name) = &name {
            self.define(name, at);
        }
        param.finish();
        Some(Param { name: name?, source: source?, kind, required, default })
    }

    fn source(&mut self, node: &Node, param: &Mapping<'_>) -> Option<Source> {
        if let Some(text) = node.text() {
            return match text.split_once('.') {
                _ if text.trim().is_empty() => {
                    param.missing("source");
                    None
                }
                Some(("env", name)) => {
                    self.environment.insert(name.to_owned());
                    Some(Source::Environment(name.to_owned()))
                }
                Some(("event", path)) => Some(Source::Event(path.to_owned())),
                Some(("config", path)) => Some(Source::Config(path.to_owned())),
                _ => Some(Source::Path(text.to_owned())),
            };
        }
        let mut source = Mapping::of(node, param.path_of("source"), self.findings)?;
        let call = source.mapping("api_call").map(|call| self.api_call(call));
        let expression = source.expression("expression", Some(&self.known));
        let file = source.mapping("file").map(|mut file| {
            let path = file.required_text("path").map(str::to_owned);
            let trim = file.get("trim").is_none_or(|trim| trim.content != Content::Bool(false));
            file.finish();
            path.map(|path| Source::File { path, trim })
        });
        let given = usize::from(source.has("api_call"))
            + usize::from(source.has("expression"))
            + usize::from(source.has("file"));
        if given != 1 {
            let path = param.path_of("source");
            let message = format!("{path} must have one of api_call, expression and file");
            self.findings.error(node.at, "A104", message);
        }
        source.finish();
        match (call, expression, file) {
            (Some(call), _, _) => call.map(|call| Source::Call(Box::new(call))),
            (_, Some(expression), _) => Some(Source::Expression(expression)),
            (_, _, Some(file)) => file,
            _ => None,
        }
    }

    /// Compiles a template and tells names that nothing defines.
    fn template(&self, mapping: &mut Mapping<'_>, key: &'static str) -> Option<Text> {
        let (text, node) = mapping.template(key)?;
        self.check_names(&text, node);
        Some(text)
    }

    fn check_names(&self, text: &Text, node: &Node) {
        check_names(text, node, &self.known, self.findings);
    }

    fn api_call(&mut self, mut call: Mapping<'_>) -> Option<ApiCall> {
        const METHODS: [(&str, &str); 5] =
            [("GET", "GET"), ("POST", "POST"), ("PUT", "PUT"), ("PATCH", "PATCH"), ("DELETE", "DELETE")];
        let method = call.choice("method", &METHODS).unwrap_or("GET");
        let url = self.template(&mut call, "url");
        if url.is_none() && !call.has("url") {
            call.missing("url");
        }
        let body = self.template(&mut call, "body");
        let timeout = call.duration("timeout");
        let attempts = call.integer("retry_attempts", 0, 100).and_then(|n| u32::try_from(n).ok());
        let backoff = call.choice("retry_backoff", &BACKOFFS);
        let mut headers = Vec::new();
        for mut header in call.mappings("headers") {
            let name = header.required_text("name").map(str::to_owned);
            let value = self.template(&mut header, "value");
            header.finish();
            if let (Some(name), Some(value)) = (name, value) {
                headers.push((name, value));
            }
        }
        call.finish();
        Some(ApiCall {
            method,
            url: url?,
            body,
            headers,
            timeout,
            attempts: attempts.filter(|n| *n > 0),
            backoff,
        })
    }

    fn log(&self, mut log: Mapping<'_>) -> Option<LogAction> {
        const LEVELS: [(&str, &str); 5] =
            [("debug", "debug"), ("info", "info"), ("warning", "warn"), ("warn", "warn"), ("error", "error")];
        let level = log.choice("level", &LEVELS).unwrap_or("info");
        let message = self.template(&mut log, "message");
        log.finish();
        Some(LogAction { level, message: message? })
    }

    fn precondition(&mut self, mut one: Mapping<'_>) -> Option<Precondition> {
        let at = one.at();
        let name = one.required_text("name").map(str::to_owned);
        let log = one.mapping("log").and_then(|log| self.log(log));
        let call = one.mapping("api_call").map(|call| self.api_call(call));
        if call.is_some() {
            let message = "api_call of a precondition is deprecated; use a param with source.api_call";
            self.findings.warning(at, "A701", message);
        }
        if let (Some(name), true) = (&name, call.is_some()) {
            self.define(name, at);
        }
        let mut capture = Vec::new();
        for mut field in one.mappings("capture") {
            let at = field.at();
            let name = field.required_text("name").map(str::to_owned);
            // Captures see the members of the answer alone, whatever they are.
            let from = self.extract(&mut field);
            if let Some(name) = &name {
                self.define(name, at);
            }
            field.finish();
            if let (Some(name), Some(from)) = (name, from) {
                capture.push(Capture { name, from });
            }
        }
        let conditions: Vec<_> = one
            .mappings("conditions")
            .into_iter()
            .filter_map(|condition| self.condition(condition))
            .collect();
        let expression = one.expression("expression", Some(&self.known));
        if one.has("conditions") && one.has("expression") {
            self.findings.error(at, "A104", "a precondition has conditions or an expression, not both");
        }
        if !one.has("conditions") && !one.has("expression") && call.is_none() {
            self.findings.error(at, "A102", "a precondition needs an api_call, conditions or an expression");
        }
        one.finish();
        let test = match expression {
            Some(expression) => Test::Expression(expression),
            None if conditions.is_empty() => Test::Always,
            None => Test::Conditions(conditions),
        };
        Some(Precondition { name: name?, log, call: call.flatten(), capture, test })
    }

    fn extract(&self, field: &mut Mapping<'_>) -> Option<Extract> {
        let at = field.at();
        let path = field.text("field").filter(|text| !text.trim().is_empty());
        let expression = field.get("expression").and_then(|node| expression(node, None, self.findings));
        match (path, expression, field.has("expression")) {
            (Some(path), None, false) => match JsonPath::parse(path) {
                Ok(path) => Some(Extract::Field(path)),
                Err(message) => {
                    self.findings.error(at, "A201", message);
                    None
                }
            },
            (None, expression, true) => expression.map(Extract::Expression),
            _ => {
                self.findings.error(at, "A104", "exactly one of field and expression is needed");
                None
            }
        }
    }

    fn condition(&self, mut condition: Mapping<'_>) -> Option<Condition> {
        let at = condition.at();
        let field = condition.required_text("field");
        let operator = condition.choice("operator", &Operator::ALL);
        if operator.is_none() && !condition.has("operator") {
            condition.missing("operator");
        }
        let (value, values) = (condition.value("value"), condition.value("values"));
        if value.is_some() && values.is_some() {
            self.findings.error(at, "A104", "a condition has value or values, not both");
        }
        condition.finish();
        let value = values.or(value);
        match operator? {
            Operator::Exists | Operator::NotExists if value.is_some() => {
                self.findings.error(at, "A104", format!("{} takes no value", operator?.name()));
            }
            Operator::Exists | Operator::NotExists => {}
            Operator::In | Operator::NotIn if value.as_ref().is_some_and(|value| !value.is_array()) => {
                self.findings.error(at, "A103", format!("the value of {} must be a list", operator?.name()));
            }
            _ if value.is_none() => {
                self.findings.error(at, "A102", format!("{} needs a value", operator?.name()));
            }
            _ => {}
        }
        let field = match JsonPath::parse(field?) {
            Ok(field) => field,
            Err(message) => {
                self.findings.error(at, "A201", message);
                return None;
            }
        };
        if let Some(root) = field.root().filter(|root| !self.known.contains(*root)) {
            let hint = hyperfleet_expr::hint(root, self.known.iter().map(String::as_str));
            self.findings.warning(at, "A207", format!("unknown name '{root}'{hint}"));
        }
        Some(Condition { field, operator: operator?, value: value.unwrap_or_default() })
    }

    fn resources(&mut self, all: Vec<Mapping<'_>>) -> Vec<Declared> {
        let mut names = BTreeSet::new();
        let mut resources = Vec::new();
        for one in all {
            let at = one.at();
            if let Some(resource) = self.resource(one) {
                let own =
                    std::iter::once(&resource.name).chain(resource.nested.iter().map(|nested| &nested.name));
                for name in own {
                    if !names.insert(name.clone()) {
                        self.findings.error(at, "A104", format!("the resource name {name} is there twice"));
                    }
                }
                resources.push(resource);
            }
        }
        resources
    }

    fn resource(&mut self, mut one: Mapping<'_>) -> Option<Declared> {
        let at = one.at();
        let name = one.required_text("name").map(str::to_owned);
        let (client, target_cluster) = match one.mapping("transport") {
            Some(transport) => self.transport(transport),
            None => (None, None),
        };
        let client = client.or(self.options.default_client).unwrap_or(TargetClient::Kubernetes);
        let manifest = match one.get("manifest") {
            Some(node) => self.manifest(node),
            None => {
                one.missing("manifest");
                None
            }
        };
        let discovery = one.mapping("discovery").and_then(|discovery| self.discovery(discovery));
        let mut nested = Vec::new();
        for mut item in one.mappings("nested_discoveries") {
            let name = item.required_text("name").map(str::to_owned);
            let discovery = item.mapping("discovery").and_then(|discovery| self.discovery(discovery));
            if !item.has("discovery") {
                item.missing("discovery");
            }
            item.finish();
            if let (Some(name), Some(discovery)) = (name, discovery) {
                nested.push(Nested { name, discovery });
            }
        }
        let recreate = one.bool("recreate_on_change");
        let prune = one.bool("prune");
        let (mut create_when, mut delete, mut observe_only) = (None, None, false);
        if let Some(mut lifecycle) = one.mapping("lifecycle") {
            observe_only = lifecycle.choice("manage", &[("full", false), ("observe", true)]).unwrap_or(false);
            if let Some(mut create) = lifecycle.mapping("create") {
                create_when = self.when(&mut create, true);
                create.finish();
            }
            if let Some(mut removal) = lifecycle.mapping("delete") {
                let propagation = removal.choice("propagationPolicy", &POLICIES).unwrap_or_default();
                delete = self.when(&mut removal, true).map(|when| Delete { when, propagation });
                removal.finish();
            }
            for key in ["create", "delete"] {
                if lifecycle.has(key) && discovery.is_none() {
                    let message =
                        format!("lifecycle.{key} needs a discovery to tell whether the object is there");
                    self.findings.error(at, "A102", message);
                }
            }
            lifecycle.finish();
        }
        one.finish();
        let (manifest, type_name) = manifest?;
        Some(Declared {
            name: name?,
            client,
            target_cluster,
            manifest,
            type_name,
            discovery,
            nested,
            recreate,
            create_when,
            delete,
            observe_only,
            prune,
        })
    }

    fn transport(&self, mut transport: Mapping<'_>) -> (Option<TargetClient>, Option<Text>) {
        let at = transport.at();
        let client = transport.choice(
            "client",
            &[("kubernetes", TargetClient::Kubernetes), ("maestro", TargetClient::Maestro)],
        );
        if client.is_none() && !transport.has("client") {
            transport.missing("client");
        }
        let mut cluster = None;
        if let Some(mut maestro) = transport.mapping("maestro") {
            cluster = self.template(&mut maestro, "target_cluster");
            if cluster.is_none() && !maestro.has("target_cluster") {
                maestro.missing("target_cluster");
            }
            maestro.finish();
        } else if client == Some(TargetClient::Maestro) {
            self.findings.error(at, "A102", "transport.maestro.target_cluster is required for maestro");
        }
        transport.finish();
        (client, cluster)
    }

    /// `when: {expression}`.
    fn when(&self, mapping: &mut Mapping<'_>, required: bool) -> Option<super::source::Expr> {
        let when = mapping.mapping("when");
        if when.is_none() {
            if required && !mapping.has("when") {
                mapping.missing("when.expression");
            }
            return None;
        }
        let mut when = when?;
        let expression = when.expression("expression", Some(&self.known));
        if expression.is_none() && !when.has("expression") {
            when.missing("expression");
        }
        when.finish();
        expression
    }

    fn manifest(&self, node: &Node) -> Option<(Manifest, Option<(String, String)>)> {
        match &node.content {
            Content::Text(text) => {
                let compiled = template(node, self.findings)?;
                self.check_names(&compiled, node);
                Some((Manifest::Text(compiled), type_of_text(&text.value)))
            }
            Content::Map(members) if members.len() == 1 && members[0].0.text == "ref" => {
                self.manifest_file(&members[0].1)
            }
            Content::Map(_) => {
                let tree = read_build(node, &self.known, self.findings, false)?;
                let text =
                    |key: &str| node.get(key)?.text().filter(|text| !text.contains("{{")).map(str::to_owned);
                let type_name = text("apiVersion").zip(text("kind"));
                Some((Manifest::Tree(tree), type_name))
            }
            _ => {
                let message = format!("manifest must be a mapping or text, not {}", node.type_name());
                self.findings.error(node.at, "A103", message);
                None
            }
        }
    }

    fn manifest_file(&self, node: &Node) -> Option<(Manifest, Option<(String, String)>)> {
        let (name, text) = self.referred(node)?;
        let findings = Findings::of(&name);
        let compiled = match Text::compile(&text) {
            Ok(compiled) => {
                for fault in compiled.unknown(&names(&self.known)) {
                    let at = Position { line: fault.line, column: fault.column };
                    findings.warning(at, "A207", fault.message);
                }
                Some(compiled)
            }
            Err(fault) => {
                findings.error(Position { line: fault.line, column: fault.column }, "A202", fault.message);
                None
            }
        };
        self.findings.extend(findings.into_sorted());
        Some((Manifest::Text(compiled?), type_of_text(&text)))
    }

    /// The text of a file below the directory of the task.
    fn referred(&self, node: &Node) -> Option<(String, String)> {
        let Some(given) = node.text().filter(|text| !text.trim().is_empty()) else {
            self.findings.error(node.at, "A102", "ref must name a file");
            return None;
        };
        let path = self.resolve(given);
        let read = path.and_then(|path| Ok((path.display().to_string(), files::read(&path, MAX_FILE)?)));
        read.map_err(|message| self.findings.error(node.at, "A100", message)).ok()
    }

    /// Absolute paths are taken as they are, as files that were mounted; relative ones stay below the task.
    fn resolve(&self, given: &str) -> Result<PathBuf, String> {
        let path = Path::new(given);
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(format!("{given:?} leads out of the directory of the task"));
        }
        Ok(self.directory.join(path))
    }

    fn discovery(&self, mut discovery: Mapping<'_>) -> Option<Discovery> {
        let at = discovery.at();
        let namespace = self.template(&mut discovery, "namespace");
        let name = self.template(&mut discovery, "by_name");
        let mut labels = None;
        if let Some(mut selectors) = discovery.mapping("by_selectors") {
            let mut found = Vec::new();
            if let Some(members) = selectors.get("label_selector").and_then(Node::members) {
                for (key, value) in members {
                    let key = Text::compile(&key.text).ok();
                    let value = template(value, self.findings).inspect(|text| self.check_names(text, value));
                    found.extend(key.zip(value));
                }
            }
            if found.is_empty() {
                selectors.missing("label_selector");
            }
            selectors.finish();
            labels = Some(found);
        }
        discovery.finish();
        let by = match (name, labels) {
            (Some(name), None) => By::Name(name),
            (None, Some(labels)) => By::Labels(labels),
            _ => {
                self.findings.error(at, "A104", "a discovery has either by_name or by_selectors");
                return None;
            }
        };
        Some(Discovery { namespace, by })
    }

    fn post(&mut self, mut post: Mapping<'_>) -> (Vec<Payload>, Vec<Action>) {
        let mut payloads = Vec::new();
        for mut one in post.mappings("payloads") {
            let at = one.at();
            let name = one.required_text("name").map(str::to_owned);
            let when = self.when(&mut one, false);
            let inline = one.get("build");
            let file = one.get("build_ref");
            let build = match (inline, file) {
                (Some(node), None) => read_build(node, &self.known, self.findings, true),
                (None, Some(node)) => self.build_file(node),
                _ => {
                    self.findings.error(at, "A104", "a payload has either build or build_ref");
                    None
                }
            };
            if let Some(name) = &name {
                self.define(name, at);
                self.payloads.insert(name.clone());
            }
            one.finish();
            if let (Some(name), Some(build)) = (name, build) {
                payloads.push(Payload { name, when, build });
            }
        }
        let mut actions = Vec::new();
        for mut one in post.mappings("post_actions") {
            let name = one.required_text("name").map(str::to_owned);
            let when = self.when(&mut one, false);
            let log = one.mapping("log").and_then(|log| self.log(log));
            let call = one.mapping("api_call").map(|call| self.api_call(call));
            one.finish();
            if let Some(name) = name {
                actions.push(Action { name, when, log, call: call.flatten() });
            }
        }
        post.finish();
        (payloads, actions)
    }

    fn build_file(&self, node: &Node) -> Option<super::model::Build> {
        let (name, text) = self.referred(node)?;
        let findings = Findings::of(&name);
        let build = match yaml::parse(&text) {
            Ok(root) => read_build(&root, &self.known, &findings, true),
            Err(error) => {
                findings.error(error.at, "A100", error.message);
                None
            }
        };
        self.findings.extend(findings.into_sorted());
        build
    }

    fn status(&self, mut status: Mapping<'_>) -> Option<StatusForm> {
        let known = Some(&self.known);
        let available = status.expression("available", known);
        if available.is_none() && !status.has("available") {
            status.missing("available");
        }
        let failed = status.expression("failed", known);
        let reason = status.expression("reason", known);
        let message = status.expression("message", known);
        let data = status.get("data").and_then(|node| read_build(node, &self.known, self.findings, true));
        status.finish();
        Some(StatusForm { available: available?, failed, reason, message, data })
    }
}

const POLICIES: [(&str, Propagation); 3] = [
    ("Background", Propagation::Background),
    ("Foreground", Propagation::Foreground),
    ("Orphan", Propagation::Orphan),
];

const BACKOFFS: [(&str, Backoff); 3] =
    [("exponential", Backoff::Exponential), ("linear", Backoff::Linear), ("constant", Backoff::Constant)];

/// `apiVersion` and `kind` of a text that may be no YAML before it is rendered.
fn type_of_text(text: &str) -> Option<(String, String)> {
    let top = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        let value = line.split(" #").next().unwrap_or(line).trim().trim_matches(['"', '\'']);
        (!value.is_empty() && !value.contains("{{")).then(|| value.to_owned())
    };
    top("apiVersion").zip(top("kind"))
}
