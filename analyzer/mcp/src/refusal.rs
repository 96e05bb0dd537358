//! The reason why a request has no answer.

use gpumem_capture::text::clean;

/// The most characters of a refusal.
const LONGEST: usize = 600;

/// One line: what failed, where, and what to request next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl Refusal {
    /// A refusal with this text, on one line and of bounded length.
    pub fn new(words: impl AsRef<str>) -> Self {
        // Names in it come from clients and captures.
        let words = words.as_ref().replace(char::is_whitespace, " ");
        let words = clean(&words);
        let words = words.split_whitespace();
        let words = words.collect::<Vec<_>>().join(" ");
        if words.chars().count() <= LONGEST {
            return Self(words);
        }
        Self(words.chars().take(LONGEST - 1).chain(['…']).collect())
    }
}

/// A refusal with a text as for `format!`.
macro_rules! refused {
    ($($words:tt)*) => {
        $crate::refusal::Refusal::new(format!($($words)*))
    };
}
pub(crate) use refused;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_no_escape_sequence() {
        let refusal = refused!("no capture re\u{7f}port\x1b[2J.bin\u{202e}\r\nhere").to_string();
        assert_eq!(
            refusal,
            "no capture re\u{fffd}port\u{fffd}[2J.bin\u{fffd} here"
        );
    }

    #[test]
    fn a_refusal_is_one_bounded_line() {
        let long = refused!("first\nsecond {}", "x".repeat(5000)).to_string();
        assert!(long.starts_with("first second x"));
        assert_eq!(long.lines().count(), 1);
        assert_eq!(long.chars().count(), LONGEST);
    }
}
