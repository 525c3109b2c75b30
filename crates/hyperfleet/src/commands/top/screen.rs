//! Draws a view on a terminal. Every text of a server passes [`clean`].

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect, Size};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};

use super::controls::{Controls, HELP};
use super::model::{ReconciliationPhase, View};
use crate::output::age::span;
use crate::output::text::{clean, wrapped};

/// Lines outside the table that are always shown.
const OTHER_LINES: usize = 8;
/// Lines for the reason of a lost connection.
const REASON_LINES: usize = 3;
/// The gap between two parts of a line.
const GAP: &str = "  ";
/// Adapters that fit on their line.
const ADAPTERS: usize = 6;

/// Kinds that fit behind the total.
const KINDS: usize = 4;

/// The parts of the screen besides the view.
#[derive(Debug)]
pub(super) struct ScreenContext<'a> {
    pub(super) server: &'a str,
    /// Why there is nothing new, if the connection is lost.
    pub(super) trouble: Option<String>,
    pub(super) colours: bool,
}

/// How many rows fit.
pub(super) fn rows(size: Size, view: &View, context: &ScreenContext<'_>) -> usize {
    let lines =
        OTHER_LINES + reason(context, size.width).len() + counts(view, size.width, Palette(false)).len();
    usize::from(size.height).saturating_sub(lines).max(1)
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, controls: &Controls, context: &ScreenContext<'_>) {
    let palette = Palette(context.colours);
    let width = frame.area().width;
    let reason = reason(context, width);
    let counts = counts(view, width, palette);
    let [head, trouble, phases, bar, rates, adapters, _, table, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(reason.len() as u16),
        Constraint::Length(counts.len() as u16),
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(heading(view, controls, context, palette), head);
    frame.render_widget(Paragraph::new(reason).style(palette.colour(Color::Red)), trouble);
    frame.render_widget(Paragraph::new(counts), phases);
    frame.render_widget(shares(view, bar.width, palette), bar);
    draw_rates(frame, view, rates, palette);
    frame.render_widget(failing(view, palette), adapters);
    draw_rows(frame, view, controls, table, palette);
    frame.render_widget(footer(view, controls, table.height, palette), foot);
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
struct Palette(bool);

impl Palette {
    fn colour(self, colour: Color) -> Style {
        if self.0 { Style::new().fg(colour) } else { Style::new() }
    }

    fn phase(self, phase: ReconciliationPhase) -> Style {
        self.colour(match phase {
            ReconciliationPhase::Reconciled => Color::Green,
            ReconciliationPhase::Reconciling => Color::Yellow,
            ReconciliationPhase::Finalizing => Color::Blue,
            ReconciliationPhase::Degraded => Color::Red,
            ReconciliationPhase::Stuck => Color::Magenta,
        })
    }

    fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }
}

/// The most important comes first, because a long line is cut at its end.
fn heading<'a>(
    view: &View,
    controls: &Controls,
    context: &'a ScreenContext<'_>,
    palette: Palette,
) -> Line<'a> {
    let mut line = vec![Span::styled("HyperFleet", palette.strong())];
    let mut mark = |text: &'static str, colour| {
        line.push(Span::styled(text, palette.colour(colour).add_modifier(Modifier::BOLD)));
    };
    if context.trouble.is_some() {
        mark("  NOT CONNECTED", Color::Red);
    } else if !view.is_complete {
        mark("  reading …", Color::Yellow);
    }
    if controls.paused {
        mark("  PAUSED", Color::Yellow);
    }
    line.push(Span::raw(format!("  {} resources", view.total)));
    line.push(Span::styled(format!("{}  {}", kinds(view), clean(context.server)), palette.faint()));
    Line::from(line)
}

/// Why there is no connection, in full where it is not too long.
fn reason(context: &ScreenContext<'_>, width: u16) -> Vec<Line<'static>> {
    let Some(trouble) = &context.trouble else { return Vec::new() };
    let mut lines = wrapped(&clean(trouble), width.into());
    lines.truncate(REASON_LINES);
    lines.into_iter().map(Line::from).collect()
}

/// The counts by kind, if there are few kinds.
fn kinds(view: &View) -> String {
    if !(2..=KINDS).contains(&view.kinds.len()) {
        return String::new();
    }
    let one = |(kind, count): &(String, usize)| format!("{count} {}", clean(kind));
    format!("  {}", view.kinds.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// How many there are in each phase, on as many lines as it takes: none of them is ever cut off.
fn counts(view: &View, width: u16, palette: Palette) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (phase, count) in ReconciliationPhase::ALL.iter().zip(&view.phases) {
        let style = if *count == 0 { palette.faint() } else { palette.phase(*phase) };
        let span = Span::styled(format!("● {} {count}", phase.name()), style);
        match lines.last_mut() {
            Some(line) if line.width() + GAP.len() + span.width() <= width.into() => {
                line.extend([Span::raw(GAP), span]);
            }
            _ => lines.push(Line::from(span)),
        }
    }
    lines
}

/// The phases as parts of one line. A phase with a resource has at least one column.
fn shares(view: &View, width: u16, palette: Palette) -> Line<'static> {
    let width = usize::from(width);
    let mut left = width;
    let parts = ReconciliationPhase::ALL.iter().zip(&view.phases).filter(|(_, count)| **count > 0);
    let spans = parts.map(|(phase, count)| {
        let columns = (count * width / view.total.max(1)).max(1).min(left);
        left -= columns;
        Span::styled("━".repeat(columns), palette.phase(*phase))
    });
    Line::from(spans.collect::<Vec<_>>())
}

fn draw_rates(frame: &mut Frame<'_>, view: &View, area: Rect, palette: Palette) {
    let [words, line] = Layout::horizontal([Constraint::Length(22), Constraint::Min(1)]).areas(area);
    let text = vec![
        Line::from(format!("{:.1} changes/s", view.rate)),
        Line::styled("in the last minute", palette.faint()),
    ];
    frame.render_widget(Paragraph::new(text), words);
    let newest = view.history.len().saturating_sub(usize::from(line.width));
    frame.render_widget(
        Sparkline::default().data(&view.history[newest..]).style(palette.colour(Color::Cyan)),
        line,
    );
}

fn failing(view: &View, palette: Palette) -> Line<'static> {
    let mut line = vec![Span::raw("Adapters failing      ")];
    if view.adapters.is_empty() {
        line.push(Span::styled("none", palette.faint()));
    }
    for adapter in view.adapters.iter().take(ADAPTERS) {
        let style = if adapter.failing > 0 { palette.colour(Color::Red) } else { palette.faint() };
        line.push(Span::styled(format!("{} {}", clean(&adapter.name), adapter.failing), style));
        line.push(Span::styled(format!(" (+{})  ", adapter.setbacks), palette.faint()));
    }
    Line::from(line)
}

fn draw_rows(frame: &mut Frame<'_>, view: &View, controls: &Controls, area: Rect, palette: Palette) {
    let rows = view.rows.iter().skip(controls.offset).map(|row| {
        Row::new(vec![
            Cell::from(Span::styled(clean(&row.name).into_owned(), palette.strong())),
            Cell::from(Span::styled(clean(&row.kind).into_owned(), palette.faint())),
            Cell::from(Span::styled(row.phase.name(), palette.phase(row.phase))),
            Cell::from(span(row.lasts)),
            Cell::from(row.generation.to_string()),
            Cell::from(clean(&row.why).into_owned()),
        ])
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(10),
        Constraint::Length(11),
        Constraint::Length(6),
        Constraint::Length(4),
        Constraint::Fill(3),
    ];
    let head = Row::new(["NAME", "KIND", "PHASE", "FOR", "GEN", "WHY"]).style(palette.strong());
    frame.render_widget(Table::new(rows, widths).header(head).column_spacing(1), area);
    if view.rows.is_empty() && view.is_complete && area.height > 1 {
        let text = match (controls.options.filter.is_empty(), view.total) {
            (false, _) => "nothing fits the filter",
            (true, 0) => "no resources yet",
            (true, _) => "everything is reconciled",
        };
        let below = Rect { y: area.y + 1, height: 1, ..area };
        frame.render_widget(Line::styled(text, palette.colour(Color::Green)), below);
    }
}

fn footer(view: &View, controls: &Controls, height: u16, palette: Palette) -> Line<'static> {
    let options = &controls.options;
    if controls.typing {
        return Line::from(format!("filter: {}▏", clean(&options.filter)));
    }
    let order = if options.reversed { ", reversed" } else { "" };
    let filter = if options.filter.is_empty() {
        String::new()
    } else {
        format!("  filter {}", clean(&options.filter))
    };
    // The head of the table takes a line.
    let seen = view.rows.len().saturating_sub(controls.offset).min(usize::from(height).saturating_sub(1));
    let told = format!("{seen}/{} by {}{order}{filter}", view.matching, options.sort.name());
    Line::from(vec![Span::raw(told), Span::raw(GAP), Span::styled(HELP, palette.faint())])
}

#[cfg(test)]
mod tests;
