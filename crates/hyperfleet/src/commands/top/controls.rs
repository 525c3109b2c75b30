//! The keys. A key changes the options of the view, and nothing else.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::model::ViewOptions;

/// The keys, for the foot of the screen.
pub(super) const HELP: &str = "q quit  s sort  r reverse  / filter  a all  p pause  ↑↓ scroll";

/// The state that keys change.
#[derive(Debug, Default)]
pub(super) struct Controls {
    pub(super) options: ViewOptions,
    pub(super) paused: bool,
    /// Whether keys write the filter.
    pub(super) typing: bool,
    /// Rows that are scrolled out of the view above.
    pub(super) offset: usize,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Quit,
}

impl Controls {
    /// Takes a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Flow {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match (key.code, self.typing) {
            (KeyCode::Char('c'), _) if control => return Flow::Quit,
            (KeyCode::Enter, true) => self.typing = false,
            (KeyCode::Esc, true) => {
                self.typing = false;
                self.filter(String::new());
            }
            (KeyCode::Backspace, true) => {
                let mut filter = self.options.filter.clone();
                filter.pop();
                self.filter(filter);
            }
            (KeyCode::Char(c), true) if !control => self.filter(format!("{}{c}", self.options.filter)),
            (KeyCode::Char('q') | KeyCode::Esc, false) => return Flow::Quit,
            (KeyCode::Char('/'), false) => self.typing = true,
            (KeyCode::Char('s'), false) => self.options.sort = self.options.sort.next(),
            (KeyCode::Char('r'), false) => self.options.reversed = !self.options.reversed,
            (KeyCode::Char('a'), false) => self.options.all = !self.options.all,
            (KeyCode::Char('p' | ' '), false) => self.paused = !self.paused,
            (KeyCode::Down | KeyCode::Char('j'), false) => self.offset += 1,
            (KeyCode::Up | KeyCode::Char('k'), false) => self.offset = self.offset.saturating_sub(1),
            (KeyCode::PageDown, false) => self.offset += 10,
            (KeyCode::PageUp, false) => self.offset = self.offset.saturating_sub(10),
            (KeyCode::Home | KeyCode::Char('g'), false) => self.offset = 0,
            (KeyCode::End | KeyCode::Char('G'), false) => self.offset = usize::MAX / 2,
            _ => {}
        }
        Flow::Continue
    }

    fn filter(&mut self, filter: String) {
        self.options.filter = filter;
        self.offset = 0;
    }

    /// Asks for as many rows as are seen and those above.
    pub(super) fn ask_for(&mut self, height: usize) {
        self.options.rows = self.offset.saturating_add(height);
    }

    /// Makes the offset one that exists in a view of so many rows.
    pub(super) fn fit(&mut self, rows: usize, height: usize) {
        self.offset = self.offset.min(rows.saturating_sub(height));
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Sort;
    use super::*;

    fn typed(controls: &mut Controls, keys: &str) -> Flow {
        let mut flow = Flow::Continue;
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '\x08' => KeyCode::Backspace,
                c => KeyCode::Char(c),
            };
            flow = controls.press(KeyEvent::from(code));
        }
        flow
    }

    #[test]
    fn keys_change_the_options() {
        let mut controls = Controls::default();
        assert_eq!(typed(&mut controls, "srap"), Flow::Continue);
        assert_eq!(controls.options.sort, Sort::Phase);
        assert!(controls.options.reversed && controls.options.all && controls.paused);
        typed(&mut controls, "sssp");
        assert_eq!((controls.options.sort, controls.paused), (Sort::Time, false));
    }

    #[test]
    fn while_a_filter_is_typed_letters_are_letters() {
        let mut controls = Controls::default();
        assert_eq!(typed(&mut controls, "/qas\x08"), Flow::Continue);
        assert_eq!((controls.options.filter.as_str(), controls.typing), ("qa", true));
        typed(&mut controls, "\n");
        assert_eq!((controls.options.filter.as_str(), controls.typing), ("qa", false));
        typed(&mut controls, "/\x1b");
        assert_eq!((controls.options.filter.as_str(), controls.typing), ("", false));
        assert_eq!(typed(&mut controls, "q"), Flow::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        controls.typing = true;
        assert_eq!(controls.press(interrupt), Flow::Quit);
    }

    #[test]
    fn scrolling_stops_at_the_end() {
        let mut controls = Controls { offset: 50, ..Controls::default() };
        controls.ask_for(5);
        controls.fit(12, 5);
        assert_eq!((controls.options.rows, controls.offset), (55, 7));
        controls.fit(3, 5);
        assert_eq!(controls.offset, 0);
    }
}
