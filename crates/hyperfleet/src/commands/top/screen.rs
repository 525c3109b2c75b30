//! How a view looks on a terminal. Everything that a server said passes [`clean`] on its way there.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};

use super::controls::{Controls, HELP};
use super::model::{Phase, View};
use crate::output::age::span;
use crate::output::text::clean;

/// Lines that are not rows of the table.
const AROUND: u16 = 9;
/// Adapters that fit on their line.
const ADAPTERS: usize = 6;

/// Kinds that fit behind the total.
const KINDS: usize = 4;

/// What the screen shows besides the view.
#[derive(Debug)]
pub(super) struct Around<'a> {
    pub(super) server: &'a str,
    /// Why there is nothing new, if the connection is lost.
    pub(super) trouble: Option<String>,
    pub(super) colours: bool,
}

/// How many rows fit.
pub(super) fn rows(height: u16) -> usize {
    usize::from(height.saturating_sub(AROUND)).max(1)
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, controls: &Controls, around: &Around<'_>) {
    let palette = Palette(around.colours);
    let [head, phases, bar, rates, adapters, _, table, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(heading(view, controls, around, palette), head);
    frame.render_widget(counts(view, palette), phases);
    frame.render_widget(shares(view, bar.width, palette), bar);
    draw_rates(frame, view, rates, palette);
    frame.render_widget(failing(view, palette), adapters);
    draw_rows(frame, view, controls, table, palette);
    frame.render_widget(footer(view, controls, palette), foot);
}

/// Colours, or none where the person wants none.
#[derive(Debug, Clone, Copy)]
struct Palette(bool);

impl Palette {
    fn colour(self, colour: Color) -> Style {
        if self.0 { Style::new().fg(colour) } else { Style::new() }
    }

    fn phase(self, phase: Phase) -> Style {
        self.colour(match phase {
            Phase::Reconciled => Color::Green,
            Phase::Reconciling => Color::Yellow,
            Phase::Finalizing => Color::Blue,
            Phase::Degraded => Color::Red,
            Phase::Stuck => Color::Magenta,
        })
    }

    fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }
}

fn heading<'a>(view: &View, controls: &Controls, around: &'a Around<'_>, palette: Palette) -> Line<'a> {
    let mut line = vec![
        Span::styled("HyperFleet", palette.strong()),
        Span::styled(format!(" {}  ", clean(around.server)), palette.faint()),
        Span::raw(format!("{} resources", view.total)),
    ];
    let mut mark = |text: String, colour| {
        line.push(Span::styled(text, palette.colour(colour).add_modifier(Modifier::BOLD)));
    };
    if controls.paused {
        mark("  PAUSED".to_owned(), Color::Yellow);
    }
    match &around.trouble {
        Some(why) => mark(format!("  NOT CONNECTED: {}", clean(why)), Color::Red),
        None if !view.is_complete => mark("  reading …".to_owned(), Color::Yellow),
        None => {}
    }
    line.push(Span::styled(kinds(view), palette.faint()));
    Line::from(line)
}

/// How many of each kind, where that is a short story.
fn kinds(view: &View) -> String {
    if !(2..=KINDS).contains(&view.kinds.len()) {
        return String::new();
    }
    let one = |(kind, count): &(String, usize)| format!("{count} {}", clean(kind));
    format!("  {}", view.kinds.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn counts(view: &View, palette: Palette) -> Line<'static> {
    let one = |(phase, count): (&Phase, &usize)| {
        let style = if *count == 0 { palette.faint() } else { palette.phase(*phase) };
        [Span::styled(format!("● {} {count}", phase.name()), style), Span::raw("   ")]
    };
    Line::from_iter(Phase::ALL.iter().zip(&view.phases).flat_map(one))
}

/// The phases as parts of one line. Whatever is there has at least one column.
fn shares(view: &View, width: u16, palette: Palette) -> Line<'static> {
    let width = usize::from(width);
    let mut left = width;
    let parts = Phase::ALL.iter().zip(&view.phases).filter(|(_, count)| **count > 0);
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
        let text = match (controls.wish.filter.is_empty(), view.total) {
            (false, _) => "nothing fits the filter",
            (true, 0) => "no resources yet",
            (true, _) => "everything is reconciled",
        };
        let below = Rect { y: area.y + 1, height: 1, ..area };
        frame.render_widget(Line::styled(text, palette.colour(Color::Green)), below);
    }
}

fn footer(view: &View, controls: &Controls, palette: Palette) -> Line<'static> {
    let wish = &controls.wish;
    if controls.typing {
        return Line::from(format!("filter: {}▏", clean(&wish.filter)));
    }
    let order = if wish.reversed { ", reversed" } else { "" };
    let filter =
        if wish.filter.is_empty() { String::new() } else { format!("  filter {}", clean(&wish.filter)) };
    let seen = view.rows.len().saturating_sub(controls.offset);
    Line::from(vec![
        Span::styled(HELP, palette.faint()),
        Span::raw(format!("  by {}{order}{filter}  {seen}/{}", wish.sort.name(), view.matching)),
    ])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::model;
    use super::*;

    fn drawn(view: &View, controls: &Controls, trouble: Option<&str>) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 14)).unwrap();
        let around =
            Around { server: "http://localhost:8000", trouble: trouble.map(str::to_owned), colours: false };
        terminal.draw(|frame| draw(frame, view, controls, &around)).unwrap();
        terminal.backend().to_string()
    }

    fn view() -> View {
        let mut history = vec![0; model::HISTORY];
        history[55..].copy_from_slice(&[1, 2, 3, 2, 4]);
        View {
            total: 10,
            kinds: vec![("Cluster".to_owned(), 7), ("NodePool".to_owned(), 3)],
            phases: [6, 1, 2, 0, 1],
            rate: 1.2,
            history,
            rows: vec![model::Row {
                kind: "NodePool".to_owned(),
                name: "prod\u{1b}[2J/workers".to_owned(),
                phase: Phase::Stuck,
                generation: 4,
                lasts: Duration::from_secs(754),
                why: "dns: ZoneNotDelegated".to_owned(),
            }],
            matching: 4,
            adapters: vec![model::Adapter { name: "dns".to_owned(), failing: 2, setbacks: 5 }],
            is_complete: true,
        }
    }

    #[test]
    fn a_view_is_one_screen_and_nothing_in_it_acts_on_the_terminal() {
        let screen = drawn(&view(), &Controls::default(), None);
        let parts = [
            "10 resources  7 Cluster, 3 NodePool",
            "● Degraded 2",
            "1.2 changes/s",
            "dns 2 (+5)",
            "NodePool",
            "Stuck",
            "12m",
            "1/4",
        ];
        for part in parts {
            assert!(screen.contains(part), "{part} in\n{screen}");
        }
        assert!(screen.contains("prod\\u{1b}[2J/workers") && !screen.contains('\u{1b}'), "{screen}");
    }

    #[test]
    fn a_lost_connection_a_pause_and_a_filter_show() {
        let controls = Controls { paused: true, typing: true, ..Controls::default() };
        let screen = drawn(&view(), &controls, Some("refused"));
        for part in ["PAUSED", "NOT CONNECTED: refused", "filter: ▏"] {
            assert!(screen.contains(part), "{part} in\n{screen}");
        }
    }

    #[test]
    fn a_fleet_without_trouble_says_so() {
        let view = View { rows: Vec::new(), matching: 0, ..view() };
        assert!(drawn(&view, &Controls::default(), None).contains("everything is reconciled"));
    }
}
