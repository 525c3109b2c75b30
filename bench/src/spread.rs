//! A figure with the width that its rounds have. A median alone says nothing about whether a difference means
//! something: two figures differ when no round of the one reaches into the rounds of the other.

use std::fmt::{self, Display};

use serde_json::{Value, json};

/// The middle of some values; the mean of the middle two of an even number.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[length / 2],
        length => f64::midpoint(sorted[length / 2 - 1], sorted[length / 2]),
    }
}

/// The lowest and the highest of some rounds around their median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    pub(crate) fn of(rounds: &[f64]) -> Self {
        let low = rounds.iter().copied().min_by(f64::total_cmp).unwrap_or(f64::NAN);
        let high = rounds.iter().copied().max_by(f64::total_cmp).unwrap_or(f64::NAN);
        Self { low, median: median(rounds), high }
    }

    /// Whether a round of one may as well have been a round of the other.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// `low–high`, with as many digits as tell something.
impl Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&format!("{}–{}", short(self.low), short(self.high)))
    }
}

/// A number with about four digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// The same with commas between thousands.
pub(crate) fn number(value: f64) -> String {
    grouped(&short(value))
}

/// A number with commas between thousands.
pub(crate) fn grouped(text: &str) -> String {
    let whole = text.find('.').unwrap_or(text.len());
    let digits = text.len() - usize::from(text.starts_with('-'));
    let mut grouped = String::with_capacity(text.len() + digits / 3);
    for (place, character) in text.char_indices() {
        let before = place > text.len() - digits && place < whole;
        if before && (whole - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(character);
    }
    grouped
}

/// In which direction a figure gets better.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Better {
    More,
    Less,
}

/// A figure of a run that a later run can be held against.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    /// Says what was measured, where, and with how many connections; the same in every run.
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    pub(crate) rounds: Vec<f64>,
}

impl Measured {
    pub(crate) fn new(name: impl Into<String>, unit: &str, better: Better, rounds: &[f64]) -> Self {
        Self { name: name.into(), unit: unit.to_owned(), better, rounds: rounds.to_vec() }
    }

    pub(crate) fn spread(&self) -> Spread {
        Spread::of(&self.rounds)
    }

    pub(crate) fn json(&self) -> Value {
        let Spread { low, median, high } = self.spread();
        let better = match self.better {
            Better::More => "more",
            Better::Less => "less",
        };
        json!({
            "name": self.name, "unit": self.unit, "better": better,
            "median": median, "low": low, "high": high, "rounds": self.rounds,
        })
    }

    /// Reads what [`Self::json`] wrote.
    pub(crate) fn parse(json: &Value) -> Option<Self> {
        let better = match json["better"].as_str()? {
            "more" => Better::More,
            "less" => Better::Less,
            _ => return None,
        };
        let rounds = json["rounds"].as_array()?.iter().map(Value::as_f64).collect::<Option<Vec<_>>>()?;
        Some(Self {
            name: json["name"].as_str()?.to_owned(),
            unit: json["unit"].as_str()?.to_owned(),
            better,
            rounds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_middle_two() {
        assert!((median(&[3.0, 100.0, 1.0]) - 3.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0, 2.0, 9.0]) - 3.0).abs() < f64::EPSILON);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_spread_reaches_from_the_lowest_round_to_the_highest() {
        let spread = Spread::of(&[1040.0, 990.0, 1000.0]);
        assert_eq!(spread, Spread { low: 990.0, median: 1000.0, high: 1040.0 });
        assert_eq!(format!("{spread:>12}"), "    990–1040");
        assert_eq!(Spread::of(&[0.5, 12.345]).to_string(), "0.50–12.3");
    }

    #[test]
    fn rounds_that_reach_into_each_other_are_not_told_apart() {
        let [low, middle, high] = [[1.0, 2.0], [2.0, 3.0], [2.1, 4.0]].map(|rounds| Spread::of(&rounds));
        assert!(low.overlaps(&middle) && middle.overlaps(&low) && middle.overlaps(&high));
        assert!(!low.overlaps(&high) && !high.overlaps(&low));
    }

    #[test]
    fn a_figure_is_read_as_it_was_written() {
        let figure = Measured::new("postgresql get @32", "/s", Better::More, &[1.0, 2.5]);
        assert_eq!(Measured::parse(&figure.json()), Some(figure));
        assert_eq!(Measured::parse(&json!({"name": "x", "unit": "/s", "better": "up", "rounds": []})), None);
    }

    #[test]
    fn thousands_are_told_apart() {
        assert_eq!(
            [1234567.0, 999.0, 0.5, -1000.0, 4096.0].map(number),
            ["1,234,567", "999", "0.50", "-1,000", "4,096"]
        );
    }
}
