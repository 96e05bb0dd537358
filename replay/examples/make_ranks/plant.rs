//! What differs in a changed rank.

use std::str::FromStr;

/// A line of code, by the end of its name in the analyzer's output, and the first step in which it differs.
#[derive(Clone, Debug)]
pub struct Line {
    name: String,
    /// The first step that differs, from 1.
    pub step: u64,
}

impl Line {
    /// Whether it is the line of that name.
    pub fn is(&self, name: &str) -> bool {
        let front = name.strip_suffix(&*self.name);
        front.is_some_and(|front| front.is_empty() || front.ends_with('/'))
    }
}

/// One difference.
#[derive(Clone, Debug)]
pub enum Plant {
    /// The line's tensors have this many times the bytes.
    Times(u64, Line),
    /// The line keeps this many more bytes in each step.
    Leak(u64, Line),
    /// A library, by its file name, has another version.
    Library { name: String, version: String },
    /// A fact of the process has another value.
    Fact { key: String, value: String },
}

impl FromStr for Plant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = (|| {
            let (kind, rest) = text.split_once('=')?;
            let (first, second) = rest.split_once(':')?;
            let line = || {
                let (name, step) = match second.rsplit_once('@') {
                    Some((name, step)) => (name, step.parse().ok()?),
                    None => (second, 1),
                };
                let name = name.to_owned();
                Some(Line { name, step })
            };
            Some(match kind {
                "times" => Self::Times(first.parse().ok()?, line()?),
                "leak" => Self::Leak(bytes(first)?, line()?),
                "library" => Self::Library {
                    name: first.into(),
                    version: second.into(),
                },
                "fact" => Self::Fact {
                    key: first.into(),
                    value: second.into(),
                },
                _ => return None,
            })
        })();
        parsed
            .ok_or_else(|| format!("{text}: times, leak, library or fact: see the top of main.rs"))
    }
}

/// `4MiB`, or a number of bytes.
fn bytes(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.iter().find(|(unit, _)| text.ends_with(unit));
    let (number, shift) = unit.map_or((text, 0), |(unit, shift)| {
        (text.trim_end_matches(unit), *shift)
    });
    Some(number.parse::<u64>().ok()? << shift)
}
