//! The position of a rank in each dimension of a job's parallelism: `dp=1,tp=0,pp=3`.

use core::fmt;

/// Maximum number of coordinates of a rank.
const MOST: usize = 16;
/// Longest name of a dimension.
const LONGEST: usize = 32;

/// A rank's coordinates, by name of the dimension, in the given order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coordinates(Vec<(String, u64)>);

impl Coordinates {
    /// Reads `dp=1,tp=0,pp=3`: up to 16 distinct names of `[a-z0-9_]`, at most 32 characters long, with decimal
    /// numbers. Spaces around names and numbers are ignored. `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut all: Vec<(String, u64)> = Vec::new();
        for part in text.split(',') {
            let (name, number) = part.split_once('=')?;
            let (name, number) = (name.trim(), number.trim());
            let is_name = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
            let is_new = all.iter().all(|(known, _)| known != name);
            let is_fit = !name.is_empty() && name.len() <= LONGEST && name.bytes().all(is_name);
            // `u64::from_str` would accept a sign.
            let is_number = number.bytes().all(|c| c.is_ascii_digit());
            if !(is_new && is_fit && is_number) || all.len() == MOST {
                return None;
            }
            all.push((name.to_owned(), number.parse().ok()?));
        }
        Some(Self(all))
    }

    /// Each name with its number.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, number)| (name.as_str(), *number))
    }
}

/// The format of [`Coordinates::parse`], without spaces.
impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, number)) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{name}={number}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_read_in_their_order() {
        let read = Coordinates::parse("pp=3, tp = 0,dp_shard=12").expect("coordinates");
        let all: Vec<_> = read.iter().collect();
        assert_eq!(all, [("pp", 3), ("tp", 0), ("dp_shard", 12)]);
        assert_eq!(read.to_string(), "pp=3,tp=0,dp_shard=12");
        assert_eq!(Coordinates::parse(&read.to_string()), Some(read));
    }

    #[test]
    fn what_is_not_names_and_numbers_is_refused() {
        let long = format!("{}=1", "a".repeat(LONGEST + 1));
        let many: Vec<String> = (0..=MOST).map(|n| format!("d{n}=0")).collect();
        let refused = [
            "",
            ",",
            "dp",
            "dp=",
            "=1",
            "dp=1,",
            "DP=1",
            "dp-x=1",
            "dp=-1",
            "dp=+1",
            "dp=1.5",
            "dp=1 2",
            "dp=1,dp=2",
            "dp=1;tp=0",
            "dp=99999999999999999999",
            &long,
            &many.join(","),
        ];
        for text in refused {
            assert_eq!(Coordinates::parse(text), None, "{text}");
        }
        assert!(Coordinates::parse(&many[..MOST].join(",")).is_some());
    }
}
