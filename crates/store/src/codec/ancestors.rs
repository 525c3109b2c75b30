//! The owners of a resource as one text column: ids from the root down, joined by `/`. They never
//! change, so a nested path is checked without another query.

use hyperfleet_core::{Resource, ResourceId};

use crate::failure::{Failure, FailureKind};

pub(crate) fn parse(text: &str) -> Result<Vec<ResourceId>, Failure> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let defect = |id| Failure::new(FailureKind::Defect, format!("'{id}' is no id in resources.ancestors"));
    text.split('/').map(|id| ResourceId::parse(id).ok_or_else(|| defect(id))).collect()
}

pub(crate) fn print(resource: &Resource) -> String {
    resource.ancestors.iter().map(ToString::to_string).collect::<Vec<_>>().join("/")
}
