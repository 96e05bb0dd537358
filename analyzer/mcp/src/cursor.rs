//! Cursors: where the next page of an answer begins. A cursor is opaque to clients.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::refusal::{Refusal, refused};

/// A request and the state of its captures, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edition(u64);

impl Edition {
    /// The edition of everything that determines the rows.
    pub fn of(parts: &[&str]) -> Self {
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The cursor of the row `offset`.
pub fn cursor(offset: usize, edition: Edition) -> String {
    format!("{offset:x}.{:016x}", edition.0)
}

/// The row at which a page begins.
///
/// # Errors
/// The text is not a cursor, or belongs to another request.
pub fn offset(cursor: &str, edition: Edition) -> Result<usize, Refusal> {
    let parts = cursor.split_once('.').and_then(|(offset, of)| {
        let offset = usize::from_str_radix(offset, 16).ok()?;
        Some((offset, u64::from_str_radix(of, 16).ok()?))
    });
    match parts {
        Some((offset, of)) if of == edition.0 => Ok(offset),
        Some(_) => Err(refused!(
            "the cursor belongs to another query, or a capture changed since: call without cursor for the first page"
        )),
        None => Err(refused!(
            "{cursor:?} is not a cursor: pass the next of an answer unchanged, with the same arguments"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_of_its_own_question() {
        let [one, other] = [["lines", "a"], ["lines", "b"]].map(|parts| Edition::of(&parts));
        assert_eq!(offset(&cursor(17, one), one), Ok(17));
        let said = offset(&cursor(17, one), other).unwrap_err().to_string();
        assert!(said.contains("belongs to another query"), "{said}");
        for wrong in ["", "17", "x.y", "-1.0", "1.2.3"] {
            let said = offset(wrong, one).unwrap_err().to_string();
            assert!(said.contains("is not a cursor"), "{wrong}: {said}");
        }
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(Edition::of(&["ab", "c"]), Edition::of(&["a", "bc"]));
    }
}
