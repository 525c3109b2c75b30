//! Describes the configured kinds. The hand-written document describes one kind without a parent (Cluster) and one with
//! (NodePool). Both serve as patterns: the paths and schemas of each configured kind are a pattern with the names
//! replaced.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use hyperfleet_core::{Catalog, Entity};
use serde_json::{Map, Value, json};

use crate::route::parameter;
use crate::router::BASE;

const ROOT: KindNames = KindNames { kind: "Cluster", title: "Clusters", plural: "clusters", stem: "cluster" };
const CHILD: KindNames =
    KindNames { kind: "NodePool", title: "NodePools", plural: "nodepools", stem: "nodepool" };
/// Where the nested paths of the child pattern start.
const NESTED: &str = "/clusters/{cluster_id}/nodepools";

/// Replaces the two written kinds by those of the catalog.
pub(super) fn describe(document: &mut Value, catalog: &Catalog) {
    let child = Pattern::take(document, &CHILD, &[NESTED, "/nodepools"]);
    let root = Pattern::take(document, &ROOT, &["/clusters"]);
    let aliases = aliases(document, [&root, &child], catalog);

    match catalog.kinds().find(|entity| entity.parent.is_none()) {
        Some(model) => speak_of(document, model, &aliases),
        None => root.components.iter().for_each(|part| part.clone().put(document)),
    }
    let kinds: Vec<_> = catalog.kinds().map(|entity| &*entity.kind).collect();
    let listed = &mut document["components"]["schemas"]["Kind"];
    if let (true, Some(schema)) = (kinds.is_empty(), listed.as_object_mut()) {
        schema.shift_remove("enum");
    } else {
        listed["enum"] = json!(kinds);
    }

    document["x-hyperfleet-kinds"] = catalog.kinds().map(summary).collect();

    let mut operation_ids = operation_ids(document);
    for entity in catalog.kinds() {
        let pattern = if entity.parent.is_none() { &root } else { &child };
        pattern.write(document, &catalog.lineage(entity), &aliases, &mut operation_ids);
    }
}

/// A kind for clients that work with any: all they need to find its routes.
fn summary(entity: &Arc<Entity>) -> Value {
    let mut summary = json!({ "kind": &*entity.kind, "plural": &*entity.plural });
    if let Some(parent) = &entity.parent {
        summary["parent_kind"] = json!(&*parent.kind);
    }
    summary
}

/// The names that a pattern uses for its kind.
struct KindNames {
    kind: &'static str,
    /// The kind in the plural.
    title: &'static str,
    plural: &'static str,
    /// The kind in lower case, as in path parameters.
    stem: &'static str,
}

/// What the document says of one written kind.
struct Pattern {
    tag: Value,
    /// Start of the path, rest of the path below the collection, path item.
    paths: Vec<(&'static str, String, Value)>,
    components: Vec<Component>,
}

#[derive(Clone)]
struct Component {
    section: String,
    name: String,
    value: Value,
}

impl Component {
    fn put(self, document: &mut Value) {
        document["components"][self.section][self.name] = self.value;
    }
}

impl Pattern {
    fn take(document: &mut Value, model: &KindNames, starts: &[&'static str]) -> Self {
        let mut pattern = Self { tag: Value::Null, paths: Vec::new(), components: Vec::new() };
        if let Some(tags) = document["tags"].as_array_mut()
            && let Some(at) = tags.iter().position(|tag| tag["name"] == model.plural)
        {
            pattern.tag = tags.remove(at);
        }
        retain(&mut document["paths"], |path, item| {
            let place = starts.iter().find_map(|start| {
                let rest = path.strip_prefix(BASE)?.strip_prefix(start)?;
                (rest.is_empty() || rest.starts_with('/')).then(|| (*start, rest.to_owned()))
            });
            let Some((start, rest)) = place else { return true };
            pattern.paths.push((start, rest, item.take()));
            false
        });
        let parameter = format!("{}_id", model.stem);
        for (section, parts) in document["components"].as_object_mut().into_iter().flatten() {
            retain(parts, |name, value| {
                if !name.starts_with(model.kind) && name != parameter {
                    return true;
                }
                let (section, name, value) = (section.clone(), name.to_owned(), value.take());
                pattern.components.push(Component { section, name, value });
                false
            });
        }
        pattern
    }

    /// Writes the kind at the end of `line`, which starts at its root kind.
    fn write(
        &self,
        document: &mut Value,
        line: &[&Arc<Entity>],
        aliases: &HashMap<Arc<str>, String>,
        operation_ids: &mut HashSet<String>,
    ) {
        let Some((entity, owners)) = line.split_last() else { return };
        let mut names = Renaming::default();
        let model = if owners.is_empty() { &ROOT } else { &CHILD };
        names.replace(model, entity, aliases);
        if let Some(owner) = owners.last() {
            names.replace(&ROOT, owner, aliases);
        }
        if let Some(tags) = document["tags"].as_array_mut() {
            tags.push(names.apply(&self.tag));
        }
        for part in &self.components {
            let mut value = names.apply(&part.value);
            if part.name.strip_prefix(model.kind) == Some("Name") {
                value["minLength"] = json!(entity.name_len.start());
                value["maxLength"] = json!(entity.name_len.end());
            }
            if part.section == "examples" {
                fit_names(&mut value, &entity.kind, &entity.name_len);
            }
            let name = replaced(&part.name, &names.refs);
            Component { section: part.section.clone(), name, value }.put(document);
        }
        // The flat routes first, then each longer way down from one more ancestor.
        for depth in 0..=owners.len() {
            let above = &owners[owners.len() - depth..];
            names.lead(above);
            for (start, rest, item) in &self.paths {
                if (*start == NESTED) != (depth > 0) {
                    continue;
                }
                let mut path = BASE.to_owned();
                for owner in above {
                    path.push_str(&format!("/{}/{{{}}}", owner.plural, parameter(owner)));
                }
                path.push_str(&format!("/{}{}", entity.plural, replaced(rest, &names.prose)));
                let mut item = names.apply(item);
                let own = (!rest.is_empty()).then_some(*entity);
                let parameters: Vec<_> = above.iter().copied().chain(own).map(reference).collect();
                let written = start.matches('{').count() + rest.matches('{').count();
                set_path_parameters(&mut item, written, &parameters);
                make_unique(&mut item, operation_ids);
                document["paths"][path] = item;
            }
        }
    }
}

/// Old names and new ones, longest first, for the three places where names differ.
#[derive(Default)]
struct Renaming {
    /// Texts and examples.
    prose: Vec<(&'static str, String)>,
    /// Component names.
    refs: Vec<(&'static str, String)>,
    /// Operation ids, which name the whole way down.
    ids: Vec<(&'static str, String)>,
}

impl Renaming {
    fn replace(&mut self, model: &KindNames, entity: &Entity, aliases: &HashMap<Arc<str>, String>) {
        let stem = entity.kind.to_ascii_lowercase();
        self.prose.push((model.title, title(entity)));
        self.prose.push((model.plural, entity.plural.clone()));
        self.prose.push((model.kind, entity.kind.to_string()));
        self.prose.push((model.stem, stem.clone()));
        self.refs.push((model.kind, aliases[&entity.kind].clone()));
        self.refs.push((model.stem, stem));
        self.ids.push((model.title, title(entity)));
        self.ids.push((model.kind, entity.kind.to_string()));
    }

    /// Names the owners of a nested path in its operation ids.
    fn lead(&mut self, owners: &[&Arc<Entity>]) {
        if !owners.is_empty() {
            self.ids.retain(|(from, _)| *from != ROOT.title && *from != ROOT.kind);
            self.ids.push((ROOT.kind, owners.iter().map(|owner| &*owner.kind).collect()));
        }
    }

    fn apply(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => replaced(text, &self.prose).into(),
            Value::Array(items) => items.iter().map(|item| self.apply(item)).collect(),
            Value::Object(members) => members
                .iter()
                .map(|(key, value)| {
                    let value = match (key.as_str(), value.as_str()) {
                        ("$ref", Some(text)) => replaced(text, &self.refs).into(),
                        ("operationId", Some(text)) => replaced(text, &self.ids).into(),
                        _ => self.apply(value),
                    };
                    (key.clone(), value)
                })
                .collect::<Map<_, _>>()
                .into(),
            other => other.clone(),
        }
    }
}

/// All replacements in one pass, so that a new name which holds an old one is left alone.
fn replaced(text: &str, names: &[(&'static str, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['C', 'c', 'N', 'n']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (skip, new) = match names.iter().find(|(old, _)| rest.starts_with(old)) {
            Some((old, new)) => (old.len(), new.as_str()),
            None => (1, &rest[..1]),
        };
        out.push_str(new);
        rest = &rest[skip..];
    }
    out + rest
}

/// Rewrites examples that belong to no kind in particular, and the references to them, for a kind that exists.
fn speak_of(document: &mut Value, model: &Entity, aliases: &HashMap<Arc<str>, String>) {
    let mut names = Renaming::default();
    names.replace(&ROOT, model, aliases);
    let mut examples = names.apply(&document["components"]["examples"]);
    fit_names(&mut examples, &model.kind, &model.name_len);
    names.prose.clear();
    *document = names.apply(document);
    document["components"]["examples"] = examples;
}

/// The name of each kind's components: the kind's own, unless another component has it.
fn aliases(document: &Value, patterns: [&Pattern; 2], catalog: &Catalog) -> HashMap<Arc<str>, String> {
    let sections = document["components"].as_object().into_iter().flatten();
    let mut taken: HashSet<String> = sections
        .flat_map(|(_, parts)| parts.as_object().into_iter().flatten().map(|(name, _)| name.clone()))
        .collect();
    let endings: HashSet<&str> = patterns
        .iter()
        .flat_map(|pattern| &pattern.components)
        .filter_map(|part| part.name.strip_prefix(ROOT.kind).or_else(|| part.name.strip_prefix(CHILD.kind)))
        .collect();
    let mut alias_of = |entity: &Arc<Entity>| {
        let mut alias = entity.kind.to_string();
        while endings.iter().any(|ending| taken.contains(&format!("{alias}{ending}"))) {
            alias.push_str("Kind");
        }
        taken.extend(endings.iter().map(|ending| format!("{alias}{ending}")));
        (entity.kind.clone(), alias)
    };
    catalog.kinds().map(&mut alias_of).collect()
}

fn operation_ids(document: &Value) -> HashSet<String> {
    let items = document["paths"].as_object().into_iter().flatten();
    items
        .flat_map(|(_, item)| item.as_object().into_iter().flatten())
        .filter_map(|(_, operation)| Some(operation.get("operationId")?.as_str()?.to_owned()))
        .collect()
}

/// Gives every operation of a path its path parameters in place of those that are written first
/// in the pattern. They stand at the operations because Swagger UI does not follow references at
/// the path.
fn set_path_parameters(item: &mut Value, written: usize, parameters: &[Value]) {
    for (_, operation) in item.as_object_mut().into_iter().flatten() {
        if let Some(Value::Array(listed)) = operation.get_mut("parameters") {
            listed.splice(..written, parameters.iter().cloned());
        }
    }
}

/// Two ways down can spell the same id (`A` below `BC`, `AB` below `C`); the later one gets a number.
fn make_unique(item: &mut Value, taken: &mut HashSet<String>) {
    for (_, operation) in item.as_object_mut().into_iter().flatten() {
        let Some(Value::String(id)) = operation.get_mut("operationId") else { continue };
        let plain = id.clone();
        let mut number = 2;
        while !taken.insert(id.clone()) {
            *id = format!("{plain}{number}");
            number += 1;
        }
    }
}

/// Gives the example resources of a kind a name that the kind allows.
fn fit_names(value: &mut Value, kind: &str, allowed: &RangeInclusive<usize>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| fit_names(item, kind, allowed)),
        Value::Object(members) => {
            if members.get("kind").is_some_and(|own| own == kind)
                && let Some(Value::String(name)) = members.get_mut("name")
            {
                name.truncate(*allowed.end());
                name.truncate(name.trim_end_matches('-').len());
                while name.len() < *allowed.start() {
                    name.push('x');
                }
            }
            members.values_mut().for_each(|member| fit_names(member, kind, allowed));
        }
        _ => {}
    }
}

/// The kind in the plural, for texts and operation ids: `NodePools`, `Policies`.
fn title(entity: &Entity) -> String {
    let ending = entity.plural.strip_prefix(&entity.kind.to_ascii_lowercase());
    let words = ending.unwrap_or(&entity.plural).split(|c: char| !c.is_ascii_alphanumeric());
    let mut title = String::new();
    for (at, word) in words.enumerate() {
        let mut letters = word.chars();
        match letters.next() {
            Some(first) if at == 0 && ending.is_some() => title.push(first),
            Some(first) => title.push(first.to_ascii_uppercase()),
            None => {}
        }
        title.push_str(letters.as_str());
    }
    if ending.is_some() { format!("{}{title}", entity.kind) } else { title }
}

fn reference(entity: &Arc<Entity>) -> Value {
    json!({ "$ref": format!("#/components/parameters/{}", parameter(entity)) })
}

fn retain(object: &mut Value, mut keep: impl FnMut(&str, &mut Value) -> bool) {
    if let Some(members) = object.as_object_mut() {
        members.retain(|name, value| keep(name, value));
    }
}
