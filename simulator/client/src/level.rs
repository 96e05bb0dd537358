//! The low, likely or high figure of a model.

use std::io::Write;

/// A model that is not exact has three figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As little as it may be.
    Low,
    /// What it probably is.
    #[default]
    Likely,
    /// As much as it may be.
    High,
}

impl Level {
    /// A level by its name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "low" => Some(Self::Low),
            "likely" => Some(Self::Likely),
            "high" => Some(Self::High),
            _ => None,
        }
    }

    /// The level that an environment variable names; [`Level::Likely`] if it is not set. An invalid
    /// value is ignored with a line on stderr.
    pub fn from_environment(name: &str) -> Self {
        let Ok(text) = std::env::var(name) else {
            return Self::default();
        };
        let text = text.trim();
        if text.is_empty() {
            return Self::default();
        }
        Self::parse(text).unwrap_or_else(|| {
            // Without a stderr the line is lost and the default still applies.
            let _ = writeln!(
                std::io::stderr(),
                "gpumem simulator: {name}={text} is not low, likely or high; using likely"
            );
            Self::default()
        })
    }

    /// The figure for this level.
    pub fn of<T>(self, low: T, likely: T, high: T) -> T {
        match self {
            Self::Low => low,
            Self::Likely => likely,
            Self::High => high,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names_and_figures() {
        let figures =
            ["low", "likely", "high"].map(|name| Level::parse(name).map(|l| l.of(1, 2, 3)));
        assert_eq!(figures, [Some(1), Some(2), Some(3)]);
        assert_eq!(Level::parse("most"), None);
    }
}
