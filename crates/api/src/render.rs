//! Renders response bodies as JSON text: resources, reports, timelines and leases, single and as pages.

use std::io::Write as _;

use bytes::Bytes;
use hyperfleet_core::{Contract, Error, Projection, Report, Resource, Version, View, printed_size};
use hyperfleet_store::{LeasePage, Page, ReportPage, TimelinePage};

use crate::contract::HttpContract;

/// One resource.
pub(crate) fn resource(
    view: View<'_>,
    resource: &Resource,
    fields: Option<&Projection>,
) -> Result<Bytes, Error> {
    let mut out = Vec::with_capacity(printed_size(resource));
    view.write(&mut out, resource, fields)?;
    Ok(out.into())
}

/// The members of a page besides its items.
pub(crate) struct Frame<'a> {
    /// The name of the list, such as `ClusterList`, where the contract wants it.
    kind: Option<&'a str>,
    /// Which page.
    page: u64,
    /// How many items it holds.
    size: usize,
    /// How many there are on all pages, if that was asked for.
    total: Option<u64>,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(contract: Contract, kind: &'a str, page: u64, size: usize, total: Option<u64>) -> Self {
        Self { kind: HttpContract::of(contract).names_lists.then_some(kind), page, size, total }
    }
}

/// A page of resources. `next` is the token of the page behind it.
pub(crate) fn list(
    view: View<'_>,
    frame: &Frame<'_>,
    found: &Page,
    next: Option<&str>,
    fields: Option<&Projection>,
) -> Result<Bytes, Error> {
    let size: usize = found.items.iter().map(printed_size).sum();
    let mut out = open(frame, size);
    for (i, item) in found.items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        view.write(&mut out, item, fields)?;
    }
    close(&mut out, next, Some(found.version));
    Ok(out.into())
}

/// A report.
pub(crate) fn report(report: &Report) -> Result<Bytes, Error> {
    let mut out = Vec::with_capacity(report.printed_size());
    report.write(&mut out)?;
    Ok(out.into())
}

/// A page of the reports on a resource. `next` is the token of the page behind it.
pub(crate) fn reports(frame: &Frame<'_>, found: &ReportPage, next: Option<&str>) -> Result<Bytes, Error> {
    let size: usize = found.items.iter().map(Report::printed_size).sum();
    let mut out = open(frame, size);
    for (i, item) in found.items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        item.write(&mut out)?;
    }
    close(&mut out, next, Some(found.version));
    Ok(out.into())
}

/// A page of a timeline. `next` is the token of the page behind it.
pub(crate) fn timeline(frame: &Frame<'_>, found: &TimelinePage, next: Option<&str>) -> Result<Bytes, Error> {
    let size: usize = found.items.iter().map(|item| item.entry.as_str().len() + 192).sum();
    let mut out = open(frame, size);
    for (i, item) in found.items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        print(&mut out, format_args!("{{\"time\":\"{}\",\"version\":{}", item.at, item.version));
        for (name, text) in [("actor", &item.actor), ("request_id", &item.request_id)] {
            print(&mut out, format_args!(",\"{name}\":"));
            serde_json::to_writer(&mut out, text).map_err(Error::internal)?;
        }
        // An entry is an object that begins with its action, and is shown as it is kept.
        out.push(b',');
        out.extend_from_slice(&item.entry.as_str().as_bytes()[1..]);
    }
    close(&mut out, next, Some(found.version));
    Ok(out.into())
}

/// A page of leases. They have no part in the version counter. `next` is the token of the page behind it.
pub(crate) fn leases(frame: &Frame<'_>, found: &LeasePage, next: Option<&str>) -> Result<Bytes, Error> {
    let mut out = open(frame, found.items.len() * 256);
    for (i, item) in found.items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        serde_json::to_writer(&mut out, item).map_err(Error::internal)?;
    }
    close(&mut out, next, None);
    Ok(out.into())
}

/// A list up to its first item.
fn open(frame: &Frame<'_>, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(size + 128);
    out.push(b'{');
    if let Some(kind) = frame.kind {
        print(&mut out, format_args!("\"kind\":\"{kind}\","));
    }
    print(&mut out, format_args!("\"page\":{},\"size\":{}", frame.page, frame.size));
    if let Some(total) = frame.total {
        print(&mut out, format_args!(",\"total\":{total}"));
    }
    out.extend_from_slice(b",\"items\":[");
    out
}

/// A list behind its last item.
fn close(out: &mut Vec<u8>, next: Option<&str>, version: Option<Version>) {
    out.push(b']');
    if let Some(token) = next {
        print(out, format_args!(",\"next_page_token\":\"{token}\""));
    }
    if let Some(version) = version {
        print(out, format_args!(",\"version\":{version}"));
    }
    out.push(b'}');
}

fn print(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory cannot fail");
}
