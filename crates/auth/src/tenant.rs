//! The tenant of a request, from headers that a trusted proxy sets. A request without them has no tenant and is
//! refused.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use hyperfleet_core::{Error, ErrorKind, Tenant};

/// The longest value of a dimension.
const MAX_VALUE: usize = 63;

/// How the headers of a request name its tenant.
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
    /// Whether every caller needs it.
    pub required: bool,
}

/// The tenancy of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenancyClaim {
    /// A caller of a tenant.
    Tenant(Tenant),
    /// A component of the system, which sees all tenants and may only report.
    System,
}

impl Tenancy {
    /// The tenancy that the headers name.
    ///
    /// # Errors
    /// Where that cannot be told for certain; the error names the header and not what it holds.
    pub fn tenancy_claim(&self, headers: &HeaderMap) -> Result<TenancyClaim, Error> {
        let is_true = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"true");
        if let Some(system) = &self.system_header
            && let Some(value) = single(headers, system)?
            && is_true(value)
        {
            return Ok(TenancyClaim::System);
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
        Ok(TenancyClaim::Tenant(Tenant::new(&dimensions)))
    }
}

/// The one value of a header. Of two values, proxy and server could read different ones.
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

    fn tenancy_claim(headers: &[(&'static str, &'static str)]) -> Option<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        match tenancy().tenancy_claim(&map).ok()? {
            TenancyClaim::Tenant(tenant) => Some(tenant.as_str().to_owned()),
            TenancyClaim::System => Some("system".to_owned()),
        }
    }

    #[test]
    fn a_tenant_is_all_of_its_dimensions_and_nothing_else_will_do() {
        assert_eq!(
            tenancy_claim(&[("x-org", "a"), ("x-project", "p")]).as_deref(),
            Some(r#"{"org":"a","project":"p"}"#)
        );
        assert_eq!(tenancy_claim(&[("x-org", " a ")]).as_deref(), Some(r#"{"org":"a"}"#));
        assert_eq!(tenancy_claim(&[("x-system", "true")]).as_deref(), Some("system"));
        assert_eq!(
            tenancy_claim(&[("x-system", "false"), ("x-org", "a")]).as_deref(),
            Some(r#"{"org":"a"}"#)
        );
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
            assert_eq!(tenancy_claim(refused), None, "{refused:?}");
        }
    }
}
