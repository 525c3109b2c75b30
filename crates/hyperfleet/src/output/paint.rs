//! Colours with a meaning: a tone says what a text is about, and only here does it become an escape sequence.

/// The meaning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// Good.
    Good,
    /// Bad.
    Bad,
    /// In progress, or a warning.
    Pending,
    /// Explains something else.
    Faint,
    /// Important.
    Strong,
    /// An error of this very command.
    Failure,
}

impl Tone {
    fn style(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Pending => Some("33"),
            Self::Faint => Some("2"),
            Self::Strong => Some("1"),
            Self::Failure => Some("1;31"),
        }
    }

    /// The tone of a condition's status.
    pub(crate) fn of_status(status: &str) -> Self {
        match status {
            "True" => Self::Good,
            "False" => Self::Bad,
            _ => Self::Pending,
        }
    }
}

/// The text in its tone, or as it is when colours are off.
pub(crate) fn paint(text: &str, tone: Tone, colours: bool) -> String {
    match tone.style() {
        Some(style) if colours && !text.is_empty() => format!("\x1b[{style}m{text}\x1b[0m"),
        _ => text.to_owned(),
    }
}

/// The text without any tone, for text that is stored and not shown.
pub(crate) fn unpainted(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paint_can_be_taken_off_again() {
        let text = format!("a {} m {}", paint("b", Tone::Faint, true), paint("c", Tone::Failure, true));
        assert_eq!(unpainted(&text), "a b m c");
    }
}
