//! Colours with a meaning: a tone says what a text is about, and only here does it become an escape sequence.

/// What a text is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
    /// Under way, or worth a look.
    Pending,
    /// Explains something else.
    Faint,
    /// Matters.
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
