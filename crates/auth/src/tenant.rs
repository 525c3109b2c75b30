//! From trusted headers to a tenant. Whoever stands in front of the server sets them; a caller without them belongs
//! nowhere.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use hyperfleet_core::{Error, ErrorKind, Tenant};

/// The longest value of a dimension.
const MAX_VALUE: usize = 63;

/// How tenants are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenancy {
    /// The header that marks a system caller with `true`.
    pub system_header: Option<HeaderName>,
    /// The headers that make up a tenant.
    pub dimensions: Vec<Dimension>,
}

/// One part of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dimension {
    /// The header that holds its value.
    pub header: HeaderName,
    /// Its name in `tenancy`.
    pub key: String,
    /// Whether everyone needs it.
    pub required: bool,
}

/// Who calls, as far as tenants go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Belonging {
    /// Someone of a tenant.
    Tenant(Tenant),
    /// A part of the system, which sees all tenants and may only report.
    System,
}

impl Tenancy {
    /// Whom the headers name.
    ///
    /// # Errors
    /// Where that cannot be told for certain; the error names the header and not what it holds.
    pub fn belonging(&self, headers: &HeaderMap) -> Result<Belonging, Error> {
        let is_true = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"true");
        if let Some(system) = &self.system_header
            && let Some(value) = single(headers, system)?
            && is_true(value)
        {
            return Ok(Belonging::System);
        }
        let mut dimensions = BTreeMap::new();
        for Dimension { header, key, required } in &self.dimensions {
            match single(headers, header)?.map(|value| value.to_str().unwrap_or("\0").trim()) {
                None | Some("") if *required => {
                    return Err(denied(format!("the header {header} is required")));
                }
                None | Some("") => {}
                Some(value) if is_valid(value) => {
                    dimensions.insert(key.as_str(), value);
                }
                Some(_) => {
                    return Err(denied(format!(
                        "the header {header} must have up to {MAX_VALUE} letters, digits, '.', '_' and '-'"
                    )));
                }
            }
        }
        if dimensions.is_empty() {
            return Err(denied("no header names a tenant"));
        }
        Ok(Belonging::Tenant(Tenant::new(&dimensions)))
    }
}

/// The one value of a header. Two could be meant for two readers.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h HeaderValue>, Error> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        Some(_) => Err(denied(format!("the header {name} is given more than once"))),
        None => Ok(first),
    }
}

fn is_valid(value: &str) -> bool {
    value.len() <= MAX_VALUE && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

fn denied(reason: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::PermissionDenied, format!("The tenant cannot be told: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenancy() -> Tenancy {
        let dimension = |header: &'static str, key: &str, required| Dimension {
            header: HeaderName::from_static(header),
            key: key.to_owned(),
            required,
        };
        Tenancy {
            system_header: Some(HeaderName::from_static("x-system")),
            dimensions: vec![dimension("x-org", "org", true), dimension("x-project", "project", false)],
        }
    }

    fn belonging(headers: &[(&'static str, &'static str)]) -> Option<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        match tenancy().belonging(&map).ok()? {
            Belonging::Tenant(tenant) => Some(tenant.as_str().to_owned()),
            Belonging::System => Some("system".to_owned()),
        }
    }

    #[test]
    fn a_tenant_is_all_of_its_dimensions_and_nothing_else_will_do() {
        assert_eq!(
            belonging(&[("x-org", "a"), ("x-project", "p")]).as_deref(),
            Some(r#"{"org":"a","project":"p"}"#)
        );
        assert_eq!(belonging(&[("x-org", " a ")]).as_deref(), Some(r#"{"org":"a"}"#));
        assert_eq!(belonging(&[("x-system", "true")]).as_deref(), Some("system"));
        assert_eq!(belonging(&[("x-system", "false"), ("x-org", "a")]).as_deref(), Some(r#"{"org":"a"}"#));
        for refused in [
            &[][..],
            &[("x-project", "p")],
            &[("x-org", "")],
            &[("x-org", "a"), ("x-org", "a")],
            &[("x-org", "a b")],
            &[("x-org", "a\"b")],
            &[("x-system", "true"), ("x-system", "true")],
            &[("x-org", "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg")],
        ] {
            assert_eq!(belonging(refused), None, "{refused:?}");
        }
    }
}
