//! Medians, spreads, and numbers as people read them.

/// The middle value, or the mean of the middle two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[length / 2],
        length => f64::midpoint(sorted[length / 2 - 1], sorted[length / 2]),
    }
}

/// `lowest–highest`.
pub(crate) fn spread(values: &[f64]) -> String {
    let low = values.iter().copied().min_by(f64::total_cmp).unwrap_or(f64::NAN);
    let high = values.iter().copied().max_by(f64::total_cmp).unwrap_or(f64::NAN);
    format!("{}–{}", number(low), number(high))
}

/// A number with about three digits, and commas between thousands.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.01 => 2,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    let whole = text.find('.').unwrap_or(text.len());
    let mut grouped = String::with_capacity(text.len() + 4);
    for (place, character) in text.char_indices() {
        if place > 0 && place < whole && (whole - place).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(character);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_values_lies_between_the_middle_two() {
        assert!((median(&[3.0, 100.0, 1.0]) - 3.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0, 2.0, 9.0]) - 3.0).abs() < f64::EPSILON);
    }

    #[test]
    fn numbers_have_commas_between_thousands() {
        assert_eq!(
            [1_234_567.0, 999.0, 0.5, -1000.0, 0.0].map(number),
            ["1,234,567", "999", "0.50", "-1,000", "0"]
        );
    }
}
