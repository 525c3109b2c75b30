//! The tracing layer that turns events into lines. Span fields are written once, when they are
//! recorded, and copied into each line; of two fields with one name the inner one wins. Buffers
//! are kept per thread, and a line leaves in one write.

use std::cell::Cell;
use std::collections::HashMap;
use std::error::Error;
use std::fmt::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hyperfleet_core::Timestamp;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
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

/// How many names are remembered as hidden or not.
const MOST_NAMES: usize = 1_024;

/// Writes a line for every event.
pub(super) struct Lines {
    style: Style,
    masking: Masking,
    /// `component`, `version`, `hostname`; people who watch a terminal know them.
    constants: Vec<(&'static str, Vec<u8>)>,
    /// Which names are hidden, as far as somebody asked. They are those of the code, so there are not many.
    hidden: ArcSwap<HashMap<&'static str, bool>>,
    write: Sink,
}

/// Fields in the order they came, their values written in the layer's style.
#[derive(Default)]
struct Fields {
    entries: Vec<(&'static str, Range<usize>)>,
    bytes: Vec<u8>,
}

/// What a thread keeps from line to line.
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
                        let mut value = Vec::new();
                        style.string(&mut value, &text);
                        (name, value)
                    })
                    .into()
            }
        };
        let style = Style { colour: colour && config.format == Format::Text, ..style };
        Self { style, masking: config.masking, constants, hidden: ArcSwap::default(), write }
    }

    /// Whether a field of this name is hidden. To find out is to compare it with every word for secrets.
    fn is_hidden(&self, name: &'static str) -> bool {
        let known = self.hidden.load();
        if let Some(hidden) = known.get(name) {
            return *hidden;
        }
        let hidden = self.masking.field(name);
        if known.len() < MOST_NAMES {
            let mut more = HashMap::clone(&known);
            more.insert(name, hidden);
            self.hidden.store(Arc::new(more));
        }
        hidden
    }

    fn recorder<'a>(&'a self, fields: &'a mut Fields) -> Recorder<'a> {
        Recorder { lines: self, fields }
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        if let Some(span) = ctx.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut self.recorder(&mut fields));
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if let Some(fields) = extensions.get_mut::<Fields>() {
            record.record(&mut self.recorder(fields));
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

        event.record(&mut self.recorder(own));
        own.append_to(fields, &[], self.style);
        for span in ctx.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                // What an event or an inner span has said is not said again.
                if seen.is_empty() {
                    seen.extend(own.names());
                }
                outer.append_to(fields, seen, self.style);
                seen.extend(outer.names());
            }
        }

        let timestamp = Timestamp::now().to_milliseconds();
        let message = own.get("message").unwrap_or_default();
        self.style.start(line, &timestamp, *event.metadata().level(), message);
        for (name, value) in &self.constants {
            if own.get(name).is_none() && !seen.contains(name) {
                self.style.field(line, name, value);
            }
        }
        self.style.finish(line, fields);
        (self.write)(line);
        let _ = SCRATCH.try_with(|cell| cell.set(Some(kept)));
    }
}

impl Fields {
    fn get(&self, name: &str) -> Option<&[u8]> {
        let (_, range) = self.entries.iter().find(|(other, _)| *other == name)?;
        self.bytes.get(range.clone())
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|(name, _)| *name)
    }

    /// Writes all but those that were seen, and those that belong to the line itself, whose place no field can take.
    fn append_to(&self, out: &mut Vec<u8>, seen: &[&'static str], style: Style) {
        for (name, range) in &self.entries {
            if !matches!(*name, "timestamp" | "level" | "message") && !seen.contains(name) {
                style.field(out, name, &self.bytes[range.clone()]);
            }
        }
    }
}

/// Writes the values of fields, masked, in the layer's style.
struct Recorder<'a> {
    lines: &'a Lines,
    fields: &'a mut Fields,
}

impl Recorder<'_> {
    fn put(&mut self, field: &Field, write: impl FnOnce(&Lines, &mut Vec<u8>, &'static str)) {
        let name = field.name();
        let name = name.strip_prefix("r#").unwrap_or(name);
        let shown = name.strip_prefix(NESTED).unwrap_or(name);
        let start = self.fields.bytes.len();
        if self.lines.is_hidden(shown) {
            self.lines.style.string(&mut self.fields.bytes, MASK);
        } else {
            write(self.lines, &mut self.fields.bytes, name);
        }
        let range = start..self.fields.bytes.len();
        match self.fields.entries.iter_mut().find(|(other, _)| *other == shown) {
            Some((_, earlier)) => *earlier = range,
            None => self.fields.entries.push((shown, range)),
        }
    }

    /// A value that cannot need escaping.
    fn put_plain(&mut self, field: &Field, value: impl fmt::Display) {
        self.put(field, |_, out, _| {
            // Writing to a vector cannot fail.
            let _ = std::io::Write::write_fmt(out, format_args!("{value}"));
        });
    }
}

impl Lines {
    fn text(&self, out: &mut Vec<u8>, name: &str, text: &str) {
        if name.starts_with(NESTED)
            && let Ok(mut value) = serde_json::from_str(text)
        {
            self.masking.json(&mut value);
            return self.style.json(out, &value);
        }
        let text = self.masking.text(text);
        if name == "message" {
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
        self.record_str(field, &format!("{value:?}"));
    }

    /// An error with all its causes.
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            // Writing to a string cannot fail.
            let _ = write!(text, ": {error}");
            cause = error.source();
        }
        self.record_str(field, &text);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put_plain(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put_plain(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put_plain(field, value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.put_plain(field, value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.put_plain(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no word for infinity.
        if value.is_finite() {
            self.put_plain(field, value);
        } else {
            self.record_str(field, &value.to_string());
        }
    }
}
