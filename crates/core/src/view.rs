//! A resource as the API shows it, as JSON text. What the store kept as JSON goes from the column to the
//! answer without being parsed; only a `fields` path into it makes that necessary.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::fields::{Projection, Wanted, project};
use crate::{Catalog, Contract, Entity, Error, Phase, RawJson, References, Resource, ResourceId};

/// The path below which version 1 of the API is served.
pub const BASE: &str = "/api/hyperfleet/v1";

/// How resources are shown: by which kinds and by whose contract.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The configured kinds.
    pub catalog: &'a Catalog,
    /// Whose contract is kept.
    pub contract: Contract,
    /// Whether tenants are kept apart, so that it is shown whom a resource belongs to.
    pub tenancy: bool,
}

impl View<'_> {
    /// The path of a resource.
    pub fn href(&self, resource: &Resource) -> String {
        self.href_below(&resource.kind, &resource.ancestors, resource.id)
    }

    /// The path of a resource of which only kind and id are known: flat.
    fn flat_href(&self, kind: &str, id: ResourceId) -> String {
        self.href_below(kind, &[], id)
    }

    fn href_below(&self, kind: &str, ancestors: &[ResourceId], id: ResourceId) -> String {
        let Some(entity) = self.catalog.get(kind) else { return format!("{BASE}/resources/{id}") };
        let mut path = BASE.to_owned();
        if self.contract.nests_children {
            let owners = self.catalog.lineage(entity);
            for (owner, id) in owners.iter().zip(ancestors) {
                path.push_str(&format!("/{}/{id}", owner.plural));
            }
        }
        path + &format!("/{}/{id}", entity.plural)
    }

    /// Prints a resource, or the parts of it that are asked for.
    pub fn write(&self, out: &mut Vec<u8>, r: &Resource, fields: Option<&Projection>) -> Result<(), Error> {
        let mut object = Object { out, fields, empty: true };
        object.text("kind", &r.kind)?;
        object.plain("id", format_args!("\"{}\"", r.id))?;
        object.plain("href", format_args!("\"{}\"", self.href(r)))?;
        object.text("name", &r.name)?;
        if let Some((owner, parent)) = self.owner(r) {
            let above = &r.ancestors[..r.ancestors.len() - 1];
            let href = self.href_below(&parent.kind, above, owner);
            object.json(
                "owner_references",
                &format!(r#"{{"kind":"{}","id":"{owner}","href":"{href}"}}"#, parent.kind),
            )?;
        }
        object.plain("generation", format_args!("{}", r.generation))?;
        object.json("spec", r.spec.as_str())?;
        object.json("labels", r.labels.as_str())?;
        if r.references.as_str() != "{}" {
            object.json("references", &self.references(r)?)?;
        }
        if let Some(tenant) = r.tenancy.as_ref().filter(|_| self.tenancy) {
            object.json("tenancy", tenant.as_str())?;
        }
        object.plain("created_time", format_args!("\"{}\"", r.created.at))?;
        object.plain("updated_time", format_args!("\"{}\"", r.updated.at))?;
        object.text("created_by", &r.created.by)?;
        object.text("updated_by", &r.updated.by)?;
        if let Phase::Finalizing(deleted) = &r.phase {
            object.plain("deleted_time", format_args!("\"{}\"", deleted.at))?;
            object.text("deleted_by", &deleted.by)?;
        }
        object.status(r.conditions.as_str())?;
        object.out.push(if object.empty { b'{' } else { b'}' });
        if object.empty {
            object.out.push(b'}');
        }
        Ok(())
    }

    /// A resource as a value.
    pub(crate) fn value(&self, resource: &Resource) -> Result<Value, Error> {
        let mut text = Vec::new();
        self.write(&mut text, resource, None)?;
        serde_json::from_slice(&text).map_err(Error::internal)
    }

    fn owner(&self, r: &Resource) -> Option<(ResourceId, &Entity)> {
        let parent = self.catalog.get(&r.kind)?.parent.as_ref()?;
        Some((r.owner()?, self.catalog.get(&parent.kind)?))
    }

    /// References with what a reader needs to follow them.
    fn references(&self, r: &Resource) -> Result<String, Error> {
        let kind_of = |ref_type: &str| {
            let rules = &self.catalog.get(&r.kind)?.references;
            rules.iter().find(|rule| rule.ref_type == ref_type).map(|rule| rule.target_kind.clone())
        };
        let mut spelled = serde_json::Map::new();
        for (ref_type, ids) in r.references.parse::<References>()? {
            let Some(kind) = kind_of(&ref_type) else { continue };
            let entries: Vec<Value> = ids
                .into_iter()
                .map(|id| json!({"kind": &*kind, "id": id, "href": self.flat_href(&kind, id)}))
                .collect();
            spelled.insert(ref_type, entries.into());
        }
        Ok(Value::Object(spelled).to_string())
    }
}

/// About how many bytes a resource takes.
pub fn printed_size(resource: &Resource) -> usize {
    let raw = [&resource.spec, &resource.labels, &resource.references, &resource.conditions];
    raw.iter().map(|json| json.as_str().len()).sum::<usize>() + 640
}

/// Prints into memory, which cannot fail, without the detour of a writer that might.
fn print(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    struct Text<'a>(&'a mut Vec<u8>);
    impl std::fmt::Write for Text<'_> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    Text(out).write_fmt(text).expect("writing to memory cannot fail");
}

/// An object in the making, of which only the wanted members are written.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    fields: Option<&'a Projection>,
    empty: bool,
}

impl<'a> Object<'a> {
    fn wanted(&self, name: &str) -> Wanted<'a> {
        self.fields.map_or(Wanted::Whole, |fields| fields.wants(name))
    }

    fn key(&mut self, name: &str) {
        self.out.push(if self.empty { b'{' } else { b',' });
        self.empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// A value that needs no escaping.
    fn plain(&mut self, name: &str, value: std::fmt::Arguments<'_>) -> Result<(), Error> {
        if !matches!(self.wanted(name), Wanted::No) {
            self.key(name);
            print(self.out, value);
        }
        Ok(())
    }

    fn text(&mut self, name: &str, value: &str) -> Result<(), Error> {
        if !matches!(self.wanted(name), Wanted::No) {
            self.key(name);
            serde_json::to_writer(&mut *self.out, value).map_err(Error::internal)?;
        }
        Ok(())
    }

    /// A value that is JSON already.
    fn json(&mut self, name: &str, value: &str) -> Result<(), Error> {
        match self.wanted(name) {
            Wanted::No => {}
            Wanted::Whole => {
                self.key(name);
                self.out.extend_from_slice(value.as_bytes());
            }
            Wanted::Parts(paths) => {
                let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
                let value: Value = serde_json::from_str(value).map_err(Error::internal)?;
                if let Some(part) = project(&value, &paths) {
                    self.key(name);
                    self.out.extend_from_slice(RawJson::from_value(&part).as_str().as_bytes());
                }
            }
        }
        Ok(())
    }

    fn status(&mut self, conditions: &str) -> Result<(), Error> {
        match self.wanted("status") {
            Wanted::No => {}
            Wanted::Parts(_) => self.json("status", &format!("{{\"conditions\":{conditions}}}"))?,
            Wanted::Whole => {
                self.key("status");
                self.out.extend_from_slice(b"{\"conditions\":");
                self.out.extend_from_slice(conditions.as_bytes());
                self.out.push(b'}');
            }
        }
        Ok(())
    }
}
