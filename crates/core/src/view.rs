//! A resource as the API shows it, as JSON text. Stored JSON goes from the column to the response without being parsed,
//! except for a `fields` path into it.

use serde_json::{Value, json};

use crate::fields::{MemberSelection, Projection, project};
use crate::json::write_string;
use crate::{Catalog, Contract, Entity, Error, Phase, RawJson, References, Resource, ResourceId};

/// How resources are shown: by which kinds and by whose contract.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The configured kinds.
    pub catalog: &'a Catalog,
    /// Whose contract is kept.
    pub contract: Contract,
    /// Whether tenancy is enabled, so that resources show their tenant.
    pub tenancy: bool,
    /// The prefix of every `href`, which is a member of a resource that can be searched for.
    pub href_prefix: &'a str,
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
        let mut path = String::with_capacity(96);
        path.push_str(self.href_prefix);
        let mut step = |plural: &str, id: ResourceId| {
            for part in ["/", plural, "/", id.written(&mut [0; 36])] {
                path.push_str(part);
            }
        };
        match self.catalog.get(kind) {
            None => step("resources", id),
            Some(entity) => {
                if self.contract.nests_children() {
                    let owners = self.catalog.lineage(entity);
                    owners.iter().zip(ancestors).for_each(|(owner, id)| step(&owner.plural, *id));
                }
                step(&entity.plural, id);
            }
        }
        path
    }

    /// Prints a resource, or the parts of it that are asked for.
    pub fn write(&self, out: &mut Vec<u8>, r: &Resource, fields: Option<&Projection>) -> Result<(), Error> {
        let mut object = Object { out, fields, empty: true };
        object.text("kind", &r.kind);
        object.quoted("id", r.id.written(&mut [0; 36]).as_bytes());
        object.quoted("href", self.href(r).as_bytes());
        object.text("name", &r.name);
        if let Some((owner, parent)) = self.owner(r) {
            let above = &r.ancestors[..r.ancestors.len() - 1];
            let href = self.href_below(&parent.kind, above, owner);
            object.json(
                "owner_references",
                &format!(r#"{{"kind":"{}","id":"{owner}","href":"{href}"}}"#, parent.kind),
            )?;
        }
        object.number("generation", r.generation);
        object.json("spec", r.spec.as_str())?;
        object.json("labels", r.labels.as_str())?;
        if r.references.as_str() != "{}" {
            object.json("references", &self.references(r)?)?;
        }
        if let Some(tenant) = r.tenancy.as_ref().filter(|_| self.tenancy) {
            object.json("tenancy", tenant.as_str())?;
        }
        object.quoted("created_time", &r.created.at.printed());
        object.quoted("updated_time", &r.updated.at.printed());
        object.text("created_by", &r.created.by);
        object.text("updated_by", &r.updated.by);
        if let Phase::Finalizing(deleted) = &r.phase {
            object.quoted("deleted_time", &deleted.at.printed());
            object.text("deleted_by", &deleted.by);
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

/// An object in the making, of which only the wanted members are written.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    fields: Option<&'a Projection>,
    empty: bool,
}

impl<'a> Object<'a> {
    fn wanted(&self, name: &str) -> MemberSelection<'a> {
        self.fields.map_or(MemberSelection::Whole, |fields| fields.wants(name))
    }

    fn key(&mut self, name: &str) {
        self.out.push(if self.empty { b'{' } else { b',' });
        self.empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// A text that needs no escaping.
    fn quoted(&mut self, name: &str, text: &[u8]) {
        if !matches!(self.wanted(name), MemberSelection::No) {
            self.key(name);
            self.out.push(b'"');
            self.out.extend_from_slice(text);
            self.out.push(b'"');
        }
    }

    fn number(&mut self, name: &str, number: i64) {
        if !matches!(self.wanted(name), MemberSelection::No) {
            self.key(name);
            self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
    }

    fn text(&mut self, name: &str, value: &str) {
        if !matches!(self.wanted(name), MemberSelection::No) {
            self.key(name);
            write_string(value, self.out);
        }
    }

    /// A value that is JSON already.
    fn json(&mut self, name: &str, value: &str) -> Result<(), Error> {
        match self.wanted(name) {
            MemberSelection::No => {}
            MemberSelection::Whole => {
                self.key(name);
                self.out.extend_from_slice(value.as_bytes());
            }
            MemberSelection::Parts(paths) => {
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
            MemberSelection::No => {}
            MemberSelection::Parts(_) => self.json("status", &format!("{{\"conditions\":{conditions}}}"))?,
            MemberSelection::Whole => {
                self.key("status");
                self.out.extend_from_slice(b"{\"conditions\":");
                self.out.extend_from_slice(conditions.as_bytes());
                self.out.push(b'}');
            }
        }
        Ok(())
    }
}
