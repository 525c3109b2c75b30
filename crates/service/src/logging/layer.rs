//! The tracing layer that turns events into lines. Span fields are written once, when they are recorded, and copied
//! into each line; of two fields with one name the inner one wins. Field names are prepared once per call site, buffers
//! are kept per thread, and each line is one write.

use std::cell::Cell;
use std::collections::HashMap;
use std::error::Error;
use std::fmt::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hyperfleet_core::Timestamp;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::line::Style;
use super::masking::{MASK, Masking};
use super::{Format, LogConfig};

/// Takes a whole line with its line end.
pub(super) type Sink = Box<dyn Fn(&[u8]) + Send + Sync>;

/// Start of the name of a field that holds JSON text.
const NESTED: &str = "json.";

/// Writes a line for every event.
pub(super) struct Lines {
    style: Style,
    masking: Masking,
    /// `component`, `version`, `hostname`, written as fields; people who watch a terminal know them.
    constants: Vec<(&'static str, Vec<u8>)>,
    /// The names of the fields of each place that has logged, of which the code has so many and no more.
    names: ArcSwap<HashMap<Identifier, Arc<[Name]>>>,
    write: Sink,
}

/// How a field is written, by its name.
struct Name {
    shown: &'static str,
    /// Whether the value is JSON text.
    is_nested: bool,
    /// Whether the value is hidden. To find out is to compare the name with every word for secrets.
    is_hidden: bool,
    /// The text before the value.
    opening: Vec<u8>,
}

/// Fields in the order they came, written in the layer's style.
#[derive(Default)]
struct Fields {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    /// Room for a text.
    text: String,
}

struct Entry {
    name: &'static str,
    /// Where it is written, and where in there its value begins.
    whole: Range<usize>,
    value: usize,
}

/// The buffers that a thread reuses.
#[derive(Default)]
struct Scratch {
    own: Fields,
    seen: Vec<&'static str>,
    fields: Vec<u8>,
    line: Vec<u8>,
}

thread_local! {
    // Taken out while in use: a value that logs while it is being formatted finds an empty one.
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Lines {
    pub(super) fn new(config: LogConfig, colour: bool, write: Sink) -> Self {
        let style = Style { format: config.format, colour };
        let constants = match config.format {
            Format::Text => Vec::new(),
            Format::Json => {
                [("component", config.component), ("version", config.version), ("hostname", config.hostname)]
                    .map(|(name, text)| {
                        let mut field = style.opening(name);
                        style.string(&mut field, &text);
                        (name, field)
                    })
                    .into()
            }
        };
        let style = Style { colour: colour && config.format == Format::Text, ..style };
        Self { style, masking: config.masking, constants, names: ArcSwap::default(), write }
    }

    /// The names of the fields of a place that logs.
    fn names(&self, place: &'static Metadata<'static>) -> Arc<[Name]> {
        if let Some(names) = self.names.load().get(&place.callsite()) {
            return names.clone();
        }
        let names: Arc<[Name]> = place.fields().iter().map(|field| self.name(field.name())).collect();
        self.names.rcu(|known| {
            let mut more = HashMap::clone(known);
            more.insert(place.callsite(), names.clone());
            more
        });
        names
    }

    fn name(&self, name: &'static str) -> Name {
        let name = name.strip_prefix("r#").unwrap_or(name);
        let shown = name.strip_prefix(NESTED).unwrap_or(name);
        Name {
            shown,
            is_nested: shown.len() < name.len(),
            is_hidden: self.masking.field(shown),
            opening: self.style.opening(shown),
        }
    }

    fn recorder<'a>(&'a self, names: &'a [Name], fields: &'a mut Fields) -> Recorder<'a> {
        Recorder { lines: self, names, fields }
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        if let Some(span) = ctx.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut self.recorder(&self.names(attributes.metadata()), &mut fields));
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if let Some(fields) = extensions.get_mut::<Fields>() {
            record.record(&mut self.recorder(&self.names(span.metadata()), fields));
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let mut kept = SCRATCH.try_with(Cell::take).ok().flatten().unwrap_or_default();
        let Scratch { own, seen, fields, line } = &mut *kept;
        own.entries.clear();
        own.bytes.clear();
        seen.clear();
        fields.clear();
        line.clear();

        event.record(&mut self.recorder(&self.names(event.metadata()), own));
        own.append_to(fields, &[]);
        for span in ctx.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                // A field of the event or of an inner span wins.
                if seen.is_empty() {
                    seen.extend(own.names());
                }
                outer.append_to(fields, seen);
                seen.extend(outer.names());
            }
        }

        let timestamp = Timestamp::now().to_milliseconds();
        let message = own.get("message").unwrap_or_default();
        self.style.start(line, &timestamp, *event.metadata().level(), message);
        for (name, field) in &self.constants {
            if own.get(name).is_none() && !seen.contains(name) {
                line.extend_from_slice(field);
            }
        }
        self.style.finish(line, fields);
        (self.write)(line);
        let _ = SCRATCH.try_with(|cell| cell.set(Some(kept)));
    }
}

impl Fields {
    fn get(&self, name: &str) -> Option<&[u8]> {
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        self.bytes.get(entry.value..entry.whole.end)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|entry| entry.name)
    }

    /// Writes all but those that were seen, and those that belong to the line itself, whose place no field can take.
    fn append_to(&self, out: &mut Vec<u8>, seen: &[&'static str]) {
        for Entry { name, whole, .. } in &self.entries {
            if !matches!(*name, "timestamp" | "level" | "message") && !seen.contains(name) {
                out.extend_from_slice(&self.bytes[whole.clone()]);
            }
        }
    }
}

/// Writes the values of fields, masked, in the layer's style.
struct Recorder<'a> {
    lines: &'a Lines,
    names: &'a [Name],
    fields: &'a mut Fields,
}

impl Recorder<'_> {
    fn put(&mut self, field: &Field, write: impl FnOnce(&Lines, &mut Vec<u8>, &Name)) {
        let Some(name) = self.names.get(field.index()) else { return };
        let bytes = &mut self.fields.bytes;
        let start = bytes.len();
        bytes.extend_from_slice(&name.opening);
        let value = bytes.len();
        if name.is_hidden {
            self.lines.style.string(bytes, MASK);
        } else {
            write(self.lines, bytes, name);
        }
        let entry = Entry { name: name.shown, whole: start..bytes.len(), value };
        match self.fields.entries.iter_mut().find(|other| other.name == entry.name) {
            Some(earlier) => *earlier = entry,
            None => self.fields.entries.push(entry),
        }
    }

    /// A value that cannot need escaping.
    fn put_plain(&mut self, field: &Field, value: &str) {
        self.put(field, |_, out, _| out.extend_from_slice(value.as_bytes()));
    }

    /// A text that is made for the purpose.
    fn put_text(&mut self, field: &Field, write: impl FnOnce(&mut String)) {
        let mut text = std::mem::take(&mut self.fields.text);
        text.clear();
        write(&mut text);
        self.record_str(field, &text);
        self.fields.text = text;
    }
}

impl Lines {
    fn text(&self, out: &mut Vec<u8>, name: &Name, text: &str) {
        if name.is_nested
            && let Ok(mut value) = serde_json::from_str(text)
        {
            self.masking.json(&mut value);
            return self.style.json(out, &value);
        }
        let text = self.masking.text(text);
        if name.shown == "message" {
            self.style.message(out, &text);
        } else {
            self.style.string(out, &text);
        }
    }
}

impl Visit for Recorder<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, |lines, out, name| lines.text(out, name, value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put_text(field, |text| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{value:?}");
        });
    }

    /// An error with all its causes.
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put_text(field, |text| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{value}");
            let mut cause = value.source();
            while let Some(error) = cause {
                let _ = write!(text, ": {error}");
                cause = error.source();
            }
        });
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put_plain(field, if value { "true" } else { "false" });
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put_plain(field, itoa::Buffer::new().format(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put_plain(field, itoa::Buffer::new().format(value));
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.put_plain(field, itoa::Buffer::new().format(value));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.put_plain(field, itoa::Buffer::new().format(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        let thousandths = (value * 1000.0).round();
        // JSON has no word for infinity.
        if (0.0..1e12).contains(&value) && thousandths / 1000.0 == value {
            // As times in milliseconds are, which come with every request.
            self.put(field, |_, out, _| write_thousandths(out, thousandths as u64));
        } else if value.is_finite() {
            self.put_plain(field, &value.to_string());
        } else {
            self.record_str(field, &value.to_string());
        }
    }
}

/// A number of thousandths, as one of whole ones.
fn write_thousandths(out: &mut Vec<u8>, number: u64) {
    let (whole, part) = (number / 1000, number % 1000);
    out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
    if part > 0 {
        let digits = [part / 100, part / 10 % 10, part % 10].map(|digit| b'0' + digit as u8);
        let end = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
        out.push(b'.');
        out.extend_from_slice(&digits[..end]);
    }
}
