//! Lines over the size of a fleet as an SVG, both axes logarithmic: what does not grow is level, what grows as the fleet
//! does rises with it. No more than that is needed, so it is written by hand.

use std::fmt::Write as _;

use crate::spread::number;

/// A line with its points, in the order of their first numbers.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// One drawing beside the others.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) lines: Vec<Line>,
}

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 420.0;
/// Where in its panel the drawing stands; the names of the lines are below it.
const LEFT: f64 = 56.0;
const RIGHT: f64 = 440.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 300.0;
/// Colours that people with any eyes can tell apart (Okabe and Ito), on white paper and on black.
const COLOURS: [[&str; 2]; 7] = [
    ["#0072b2", "#4aa3df"],
    ["#e69f00", "#e69f00"],
    ["#009e73", "#1fbf92"],
    ["#cc79a7", "#dd93bb"],
    ["#d55e00", "#f07c2a"],
    ["#56b4e9", "#9ad4f5"],
    ["#000000", "#f0f0f0"],
];
/// Paper, ink, pale ink and the lines of the grid, likewise.
const PAPER: [[&str; 4]; 2] =
    [["#ffffff", "#1f2328", "#555555", "#dddddd"], ["#0d1117", "#e6edf3", "#a0a8b0", "#30363d"]];

/// A logarithmic axis from one power of ten to another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    low: i32,
    high: i32,
    /// Where these are on paper.
    from: f64,
    to: f64,
}

impl Axis {
    /// As long as all values need.
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let powers: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let low = powers.iter().copied().fold(f64::INFINITY, f64::min);
        let high = powers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if powers.is_empty() {
            return Self { low: 0, high: 1, from, to };
        }
        let low = (low + 1e-9).floor() as i32;
        Self { low, high: ((high - 1e-9).ceil() as i32).max(low + 1), from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + part * (self.to - self.from)
    }

    fn powers(&self) -> impl Iterator<Item = f64> + use<> {
        (self.low..=self.high).map(|power| 10_f64.powi(power))
    }
}

/// All panels side by side.
pub(crate) fn plot(title: &str, panels: &[Panel]) -> String {
    let width = WIDTH * panels.len().max(1) as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {HEIGHT:.0}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>{title}</title>\n<style>{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}</style>\n\
         <rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"14\">{title}</text>\n",
        title = escaped(title),
        light = style(0),
        dark = style(1)
    );
    // One scale for all, so that they can be compared by looking at them.
    let all = || panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
    let across = Axis::over(all().map(|point| point.0), LEFT, RIGHT);
    let up = Axis::over(all().map(|point| point.1), BOTTOM, TOP);
    for (number, panel) in panels.iter().enumerate() {
        let _ = writeln!(svg, "<g transform=\"translate({:.0} 0)\">", WIDTH * number as f64);
        draw(&mut svg, panel, across, up);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

/// How everything looks on one of both papers. Who cannot tell which is wanted sees the first.
fn style(paper: usize) -> String {
    let [background, ink, pale, grid] = PAPER[paper];
    let mut style = format!(
        ".paper{{fill:{background}}}text{{fill:{ink}}}.pale{{fill:{pale}}}.grid{{stroke:{grid}}}.line{{fill:none;stroke-width:2}}"
    );
    for (number, colours) in COLOURS.iter().enumerate() {
        let colour = colours[paper];
        let _ = write!(style, ".line.c{number}{{stroke:{colour}}}.dot.c{number}{{fill:{colour}}}");
    }
    style
}

fn draw(svg: &mut String, panel: &Panel, across: Axis, up: Axis) {
    // Writing to a text cannot fail.
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.0}\" font-weight=\"bold\">{}</text>",
        TOP - 14.0,
        escaped(&panel.title)
    );
    for value in across.powers() {
        let x = across.place(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {TOP}V{BOTTOM}\" class=\"grid\"/><text x=\"{x:.1}\" y=\"{:.0}\" \
             text-anchor=\"middle\" class=\"pale\">{}</text>",
            BOTTOM + 16.0,
            number(value)
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{RIGHT}\" y=\"{:.0}\" text-anchor=\"end\" class=\"pale\">clusters</text>",
        BOTTOM + 32.0
    );
    for value in up.powers() {
        let y = up.place(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" class=\"grid\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\" \
             class=\"pale\">{value} ms</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    for (number, line) in panel.lines.iter().enumerate().filter(|(_, line)| !line.points.is_empty()) {
        let colour = format!("c{}", number % COLOURS.len());
        let places: Vec<String> =
            line.points.iter().map(|(x, y)| format!("{:.1},{:.1}", across.place(*x), up.place(*y))).collect();
        let _ = writeln!(svg, "<polyline points=\"{}\" class=\"line {colour}\"/>", places.join(" "));
        for place in &places {
            let (x, y) = place.split_once(',').unwrap_or_default();
            let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" class=\"dot {colour}\"/>");
        }
        let (x, y) = (LEFT + 200.0 * (number % 2) as f64, BOTTOM + 52.0 + 18.0 * (number / 2) as f64);
        let last = line.points.last().map_or(f64::NAN, |point| point.1);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{:.0}\" width=\"12\" height=\"12\" class=\"dot {colour}\"/>\
             <text x=\"{}\" y=\"{y}\">{}, {last:.3} ms</text>",
            y - 10.0,
            x + 18.0,
            escaped(&line.name)
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_reaches_from_one_power_of_ten_to_another() {
        let axis = Axis::over([0.3, 1.0, 20.0].into_iter(), 0.0, 300.0);
        assert_eq!(axis, Axis { low: -1, high: 2, from: 0.0, to: 300.0 });
        assert!((axis.place(1.0) - 100.0).abs() < 1e-9 && (axis.place(100.0) - 300.0).abs() < 1e-9);
        assert_eq!(Axis::over([1000.0, 1000.0].into_iter(), 0.0, 1.0).high, 4);
    }

    #[test]
    fn every_line_is_drawn_with_its_name_and_its_last_value() {
        let line = Line { name: "a < b".to_owned(), points: vec![(1e3, 1.0), (1e5, 10.0)] };
        let drawn = plot("Costs & sizes", &[Panel { title: "store".to_owned(), lines: vec![line] }]);
        assert!(drawn.contains("points=\"56.0,300.0 440.0,64.0\""), "{drawn}");
        assert!(drawn.contains(">a &lt; b, 10.000 ms<") && drawn.contains("Costs &amp; sizes"), "{drawn}");
        assert!(drawn.contains(">1,000<") && drawn.contains("prefers-color-scheme: dark"), "{drawn}");
        let opened = drawn.matches('<').count() - drawn.matches("</").count();
        assert_eq!(opened, drawn.matches("/>").count() + drawn.matches("</").count(), "{drawn}");
    }
}
