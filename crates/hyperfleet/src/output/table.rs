//! Tables: aligned by columns of the terminal, headed in capitals, without lines, so that they can be read, copied
//! and cut by other programs.

use super::paint::{Tone, paint};
use super::text;

/// Between two columns.
const GAP: &str = "  ";

/// One value in a table, with control characters escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A value in a tone; an empty one is shown as `-`.
    pub(crate) fn new(text: &str, tone: Tone) -> Self {
        let text = if text.is_empty() { "-".to_owned() } else { text::clean(text).into_owned() };
        Self { text, tone }
    }

    /// A value in no tone.
    pub(crate) fn plain(text: &str) -> Self {
        Self::new(text, Tone::Plain)
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::plain(text.as_ref())
    }
}

/// Rows under a head.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
    widths: Vec<usize>,
    is_headless: bool,
}

impl Table {
    /// An empty table with these columns.
    pub(crate) fn new<T: AsRef<str>>(head: &[T]) -> Self {
        let head: Vec<_> = head.iter().map(|title| text::clean(title.as_ref()).to_uppercase()).collect();
        let widths = head.iter().map(|title| text::width(title)).collect();
        Self { head, rows: Vec::new(), widths, is_headless: false }
    }

    /// The same, whose head is never printed.
    pub(crate) fn without_head(self) -> Self {
        Self { is_headless: true, ..self }
    }

    /// Sets a least width for a column whose values come later.
    pub(crate) fn widen(&mut self, column: usize, width: usize) {
        if let Some(known) = self.widths.get_mut(column) {
            *known = (*known).max(width);
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(text::width(&cell.text));
        }
        self.rows.push(cells);
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The whole table; each line ends with a line feed.
    pub(crate) fn render(&self, colours: bool) -> String {
        let head: Vec<_> =
            self.head.iter().map(|title| Cell { text: title.clone(), tone: Tone::Strong }).collect();
        let head = (!self.is_headless).then_some(&head);
        head.into_iter().chain(&self.rows).map(|cells| self.line(cells, colours)).collect()
    }

    /// The rows alone, each line behind `indent`.
    pub(crate) fn render_rows(&self, indent: &str, colours: bool) -> String {
        self.rows.iter().map(|cells| format!("{indent}{}", self.line(cells, colours))).collect()
    }

    /// Prints rows under a table that was printed before, in its columns, and forgets them.
    pub(crate) fn take_rows(&mut self, colours: bool) -> String {
        let lines = self.rows.iter().map(|cells| self.line(cells, colours)).collect();
        self.rows.clear();
        lines
    }

    /// One line: padding is outside the colours, and nothing follows the last value.
    fn line(&self, cells: &[Cell], colours: bool) -> String {
        let mut line = String::new();
        let mut padding = 0;
        for (cell, width) in cells.iter().zip(&self.widths) {
            line.extend(std::iter::repeat_n(' ', padding));
            line.push_str(&paint(&cell.text, cell.tone, colours));
            padding = width.saturating_sub(text::width(&cell.text)) + GAP.len();
        }
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet() -> Table {
        let mut table = Table::new(&["name", "status", "age"]);
        table.row(vec!["prod-1".into(), Cell::new("Reconciled", Tone::Good), "5m".into()]);
        table.row(vec!["世界".into(), Cell::new("", Tone::Bad), "2d\x1b[2J".into()]);
        table
    }

    #[test]
    fn columns_are_aligned_by_what_the_terminal_shows() {
        insta::assert_snapshot!(fleet().render(false), @r"
        NAME    STATUS      AGE
        prod-1  Reconciled  5m
        世界    -           2d\u{1b}[2J
        ");
    }

    #[test]
    fn colours_take_no_width() {
        let plain = fleet().render(false);
        let coloured = fleet().render(true);
        assert!(coloured.contains("\x1b[32mReconciled\x1b[0m"));
        let stripped = ["\x1b[1m", "\x1b[32m", "\x1b[31m", "\x1b[0m"]
            .iter()
            .fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(stripped, plain);
    }

    #[test]
    fn later_rows_keep_the_columns() {
        let mut table = fleet();
        let _ = table.render(false);
        table.take_rows(false);
        table.row(vec!["x".into(), "y".into(), "z".into()]);
        assert_eq!(table.take_rows(false), "x       y           z\n");
        assert!(table.is_empty());
    }
}
