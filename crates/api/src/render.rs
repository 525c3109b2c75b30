//! A resource as JSON text. What the store kept as JSON goes from the column to the answer
//! without being parsed; only a `fields` path into it makes that necessary.

use std::io::Write as _;

use bytes::Bytes;
use hyperfleet_core::{Catalog, Error, Phase, RawJson, References, Resource, ResourceId};
use serde_json::{Value, json};

use crate::fields::{Projection, Wanted, project};
use crate::router::BASE;

/// The path of a resource: flat, for every kind.
pub(crate) fn href(catalog: &Catalog, kind: &str, id: ResourceId) -> String {
    let plural = catalog.get(kind).map_or("resources", |entity| &entity.plural);
    format!("{BASE}/{plural}/{id}")
}

/// One resource.
pub(crate) fn resource(
    catalog: &Catalog,
    resource: &Resource,
    fields: Option<&Projection>,
) -> Result<Bytes, Error> {
    let mut out = Vec::with_capacity(size_of_resource(resource));
    write_resource(&mut out, catalog, resource, fields)?;
    Ok(out.into())
}

/// A page of a list.
pub(crate) struct List<'a> {
    /// The name of the items' kind.
    pub(crate) kind: &'a str,
    /// Which page.
    pub(crate) page: u64,
    /// What the store found.
    pub(crate) found: &'a hyperfleet_store::Page,
    /// Only these parts of each item.
    pub(crate) fields: Option<&'a Projection>,
}

/// A list.
pub(crate) fn list(catalog: &Catalog, list: &List<'_>) -> Result<Bytes, Error> {
    let found = list.found;
    let size: usize = found.items.iter().map(size_of_resource).sum();
    let mut out = Vec::with_capacity(size + 128);
    print(
        &mut out,
        format_args!(
            "{{\"kind\":\"{}List\",\"page\":{},\"size\":{}",
            list.kind,
            list.page,
            found.items.len()
        ),
    );
    if let Some(total) = found.total {
        print(&mut out, format_args!(",\"total\":{total}"));
    }
    out.extend_from_slice(b",\"items\":[");
    for (i, item) in found.items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_resource(&mut out, catalog, item, list.fields)?;
    }
    print(&mut out, format_args!("],\"version\":{}}}", found.version));
    Ok(out.into())
}

fn size_of_resource(resource: &Resource) -> usize {
    let raw = [&resource.spec, &resource.labels, &resource.references, &resource.conditions];
    raw.iter().map(|json| json.as_str().len()).sum::<usize>() + 640
}

fn write_resource(
    out: &mut Vec<u8>,
    catalog: &Catalog,
    r: &Resource,
    fields: Option<&Projection>,
) -> Result<(), Error> {
    let mut object = Object { out, fields, empty: true };
    object.text("kind", &r.kind)?;
    object.plain("id", format_args!("\"{}\"", r.id))?;
    object.plain("href", format_args!("\"{}\"", href(catalog, &r.kind, r.id)))?;
    object.text("name", &r.name)?;
    if let (Some(owner), Some(parent)) = (r.owner(), catalog.get(&r.kind).and_then(|e| e.parent.as_ref())) {
        let href = href(catalog, &parent.kind, owner);
        object.json(
            "owner_references",
            &format!(r#"{{"kind":"{}","id":"{owner}","href":"{href}"}}"#, parent.kind),
        )?;
    }
    object.plain("generation", format_args!("{}", r.generation))?;
    object.json("spec", r.spec.as_str())?;
    object.json("labels", r.labels.as_str())?;
    if r.references.as_str() != "{}" {
        object.json("references", &references(catalog, r)?)?;
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

/// References with what a reader needs to follow them.
fn references(catalog: &Catalog, r: &Resource) -> Result<String, Error> {
    let kind_of = |ref_type: &str| {
        let entity = catalog.get(&r.kind)?;
        entity.references.iter().find(|rule| rule.ref_type == ref_type).map(|rule| rule.target_kind.clone())
    };
    let mut spelled = serde_json::Map::new();
    for (ref_type, ids) in r.references.parse::<References>()? {
        let Some(kind) = kind_of(&ref_type) else { continue };
        let entries: Vec<Value> = ids
            .into_iter()
            .map(|id| json!({"kind": &*kind, "id": id, "href": href(catalog, &kind, id)}))
            .collect();
        spelled.insert(ref_type, entries.into());
    }
    Ok(Value::Object(spelled).to_string())
}

fn print(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory cannot fail");
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
        print(self.out, format_args!("\"{name}\":"));
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
        if let Wanted::Parts(_) = self.wanted("status") {
            return self.json("status", &format!("{{\"conditions\":{conditions}}}"));
        }
        self.plain("status", format_args!("{{\"conditions\":{conditions}}}"))
    }
}
