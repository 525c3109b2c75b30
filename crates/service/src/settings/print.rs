//! Prints settings: the effective configuration, the commented example file and the table of the documentation, all
//! from the same table of keys.

use std::fmt::Write;

use super::{Entry, Form, Key, NO_EFFECT, Settings, Source, Value, yaml};

impl Settings {
    /// The effective configuration as YAML: every key in table order, secrets masked, and a
    /// comment with the source of each value that is not the default.
    pub fn to_yaml(&self) -> String {
        let mut out = match self.file() {
            Some(file) => format!("# configuration file: {}\n", file.display()),
            None => "# no configuration file\n".to_owned(),
        };
        let mut tree = Tree::new(&mut out);
        for Entry { key, value, source } in &self.entries {
            let comment = match source {
                Source::Default => String::new(),
                other => format!("  # {other}"),
            };
            tree.key(key, &written(key, value), &comment);
        }
        out
    }
}

/// An example file: every key with its meaning and its default.
pub fn example(table: &'static [Key]) -> String {
    let mut out = String::new();
    let mut tree = Tree::new(&mut out);
    for key in table {
        tree.comment(key);
        let text = match key.form {
            // The table's own text, because it may carry comments of its own.
            Form::Structured => Written::Block(key.default.to_owned()),
            _ => written(key, &key.default_value()),
        };
        tree.key(key, &text, "");
    }
    out
}

/// A Markdown table of the keys with an effect: key, default, meaning. The environment variable and the flag follow from
/// the key.
pub fn markdown(table: &'static [Key]) -> String {
    let mut out = String::from("| Key | Default | Meaning |\n|---|---|---|\n");
    for key in table.iter().filter(|key| key.doc != NO_EFFECT) {
        let default = match key.form {
            Form::Structured => "see below".to_owned(),
            _ if key.default.is_empty() => String::new(),
            _ => format!("`{}`", key.default_value()),
        };
        let row = [format!("`{}`", key.path), default, key.meaning()];
        out.push('|');
        for cell in row {
            let _ = write!(out, " {} |", cell.replace('|', "\\|"));
        }
        out.push('\n');
    }
    out
}

/// The keys without effect, for the documentation.
pub fn without_effect(table: &'static [Key]) -> String {
    let keys = table.iter().filter(|key| key.doc == NO_EFFECT);
    keys.map(|key| format!("`{}`", key.path)).collect::<Vec<_>>().join(", ")
}

enum Written {
    Inline(String),
    Block(String),
}

fn written(key: &Key, value: &Value) -> Written {
    match value {
        Value::Text(text) => Written::Inline(yaml::scalar(&key.shown(text))),
        Value::Structured(tree) => {
            let tree = key.shown_tree(tree);
            yaml::inline(&tree).map_or_else(|| Written::Block(yaml::block(&tree, 0)), Written::Inline)
        }
        other => Written::Inline(other.to_string()),
    }
}

/// Writes dotted keys as nested mappings, opening each section when its first key comes.
struct Tree<'o> {
    out: &'o mut String,
    top: &'static str,
    open: Vec<&'static str>,
}

impl<'o> Tree<'o> {
    fn new(out: &'o mut String) -> Self {
        Self { out, top: "", open: Vec::new() }
    }

    /// Opens the sections of `key` and says how deep it is.
    fn enter(&mut self, key: &Key) -> usize {
        let mut sections: Vec<_> = key.path.split('.').collect();
        sections.pop();
        let shared = self.open.iter().zip(&sections).take_while(|(a, b)| a == b).count();
        let top = key.path.split('.').next().unwrap_or(key.path);
        if top != self.top && !self.out.is_empty() {
            self.out.push('\n');
        }
        self.top = top;
        for (depth, section) in sections.iter().enumerate().skip(shared) {
            let _ = writeln!(self.out, "{}{section}:", "  ".repeat(depth));
        }
        self.open = sections;
        self.open.len()
    }

    fn comment(&mut self, key: &Key) {
        let depth = self.enter(key);
        let _ = writeln!(self.out, "{}# {}", "  ".repeat(depth), key.meaning());
    }

    fn key(&mut self, key: &Key, value: &Written, comment: &str) {
        let pad = "  ".repeat(self.enter(key));
        let name = key.path.rsplit('.').next().unwrap_or(key.path);
        let _ = match value {
            Written::Inline(text) => writeln!(self.out, "{pad}{name}: {text}{comment}"),
            Written::Block(text) => {
                let _ = writeln!(self.out, "{pad}{name}:{comment}");
                text.lines().try_for_each(|line| writeln!(self.out, "{pad}  {line}"))
            }
        };
    }
}
