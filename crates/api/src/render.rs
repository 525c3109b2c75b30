//! Renders response bodies as JSON text: resources, reports, timelines and leases, single and as pages.

use std::io::Write as _;

use bytes::Bytes;
use hyperfleet_core::{
    Contract, Epoch, Error, FeedPosition, Lease, Projection, Report, Resource, Version, View, printed_size,
};
use hyperfleet_store::{LeasePage, Page, ReportPage, TimelineEntry, TimelinePage};

use crate::response_body::{CHUNK_BYTES, Chunks};

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

/// A page of resources, with the position from which a watch goes on. `next` is the token of the page behind it.
pub(crate) fn list(
    view: View<'_>,
    frame: &Frame<'_>,
    (epoch, found): (Epoch, Page),
    next: Option<&str>,
    fields: Option<&Projection>,
) -> Result<Chunks, Error> {
    let write = |out: &mut Vec<u8>, item: &Resource| view.write(out, item, fields);
    page(frame, found.items, next, (Some(found.version), Some(epoch)), printed_size, write)
}

/// A report.
pub(crate) fn report(report: &Report) -> Result<Bytes, Error> {
    let mut out = Vec::with_capacity(report.printed_size());
    report.write(&mut out)?;
    Ok(out.into())
}

/// A page of the reports on a resource. `next` is the token of the page behind it.
pub(crate) fn reports(frame: &Frame<'_>, found: ReportPage, next: Option<&str>) -> Result<Chunks, Error> {
    let write = |out: &mut Vec<u8>, item: &Report| item.write(out);
    page(frame, found.items, next, (Some(found.version), None), Report::printed_size, write)
}

/// A page of a timeline. `next` is the token of the page behind it.
pub(crate) fn timeline(frame: &Frame<'_>, found: TimelinePage, next: Option<&str>) -> Result<Chunks, Error> {
    let size = |item: &TimelineEntry| item.entry.as_str().len() + 192;
    page(frame, found.items, next, (Some(found.version), None), size, |out, item| {
        print(out, format_args!("{{\"time\":\"{}\",\"version\":{}", item.at, item.version));
        for (name, text) in [("actor", &item.actor), ("request_id", &item.request_id)] {
            print(out, format_args!(",\"{name}\":"));
            serde_json::to_writer(&mut *out, text).map_err(Error::internal)?;
        }
        // An entry is an object that begins with its action, and is shown as it is kept.
        out.push(b',');
        out.extend_from_slice(&item.entry.as_str().as_bytes()[1..]);
        Ok(())
    })
}

/// A page of leases. They have no part in the version counter. `next` is the token of the page behind it.
pub(crate) fn leases(frame: &Frame<'_>, found: LeasePage, next: Option<&str>) -> Result<Chunks, Error> {
    let write = |out: &mut Vec<u8>, item: &Lease| serde_json::to_writer(out, item).map_err(Error::internal);
    page(frame, found.items, next, (None, None), |_| 256, write)
}

/// A page in chunks. Items are freed as they are rendered, so that a large page is not in memory twice.
fn page<T>(
    frame: &Frame<'_>,
    items: Vec<T>,
    next: Option<&str>,
    (version, epoch): (Option<Version>, Option<Epoch>),
    size: impl Fn(&T) -> usize,
    write: impl Fn(&mut Vec<u8>, &T) -> Result<(), Error>,
) -> Result<Chunks, Error> {
    let mut chunks = Vec::new();
    let whole = items.iter().map(&size).sum::<usize>() + 256;
    let mut out = open(frame, whole.min(CHUNK_BYTES));
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        if out.len() + size(&item) > CHUNK_BYTES {
            chunks.push(Bytes::from(std::mem::take(&mut out)));
            out.reserve_exact((size(&item) + 256).max(CHUNK_BYTES));
        }
        write(&mut out, &item)?;
    }
    close(&mut out, next, version, epoch);
    chunks.push(out.into());
    Ok(Chunks::new(chunks))
}

/// A list up to its first item.
fn open(frame: &Frame<'_>, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(size);
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
fn close(out: &mut Vec<u8>, next: Option<&str>, version: Option<Version>, epoch: Option<Epoch>) {
    out.push(b']');
    if let Some(token) = next {
        print(out, format_args!(",\"next_page_token\":\"{token}\""));
    }
    if let Some(version) = version {
        print(out, format_args!(",\"version\":{version}"));
    }
    if let Some((epoch, version)) = epoch.zip(version) {
        print(out, format_args!(",\"position\":\"{}\"", FeedPosition { epoch, version }));
    }
    out.push(b'}');
}

fn print(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory cannot fail");
}
