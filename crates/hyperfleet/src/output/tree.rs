//! A tree drawn with lines, such as a cluster with its node pools. Pipes get the same bytes as terminals.

use super::paint::{Tone, paint};

/// A line of a tree, already cleaned and painted, with the lines below it.
#[derive(Debug, Default)]
pub(crate) struct Branch {
    /// The text of the line.
    pub(crate) text: String,
    /// The lines below.
    pub(crate) below: Vec<Branch>,
}

impl Branch {
    /// A line with nothing below it.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), below: Vec::new() }
    }

    /// How many lines it takes.
    pub(crate) fn size(&self) -> usize {
        1 + self.below.iter().map(Self::size).sum::<usize>()
    }

    /// The whole tree; each line ends with a line feed.
    pub(crate) fn render(&self, colours: bool) -> String {
        let mut out = format!("{}\n", self.text);
        self.render_below(&mut out, "", colours);
        out
    }

    fn render_below(&self, out: &mut String, before: &str, colours: bool) {
        for (at, branch) in self.below.iter().enumerate() {
            let last = at + 1 == self.below.len();
            let (joint, trunk) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let lines = paint(&format!("{before}{joint}"), Tone::Faint, colours);
            out.push_str(&format!("{lines}{}\n", branch.text));
            branch.render_below(out, &format!("{before}{trunk}"), colours);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_branch_hangs_below_its_own() {
        let mut root = Branch::new("cluster/prod-1");
        let mut pool = Branch::new("nodepool/workers");
        pool.below.push(Branch::new("dns"));
        root.below = vec![pool, Branch::new("nodepool/infra")];
        assert_eq!(root.size(), 4);
        insta::assert_snapshot!(root.render(false), @r"
        cluster/prod-1
        ├─ nodepool/workers
        │  └─ dns
        └─ nodepool/infra
        ");
    }
}
