//! Dictionaries of texts, all of which are known before the first row.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::ArrowError;
use rustc_hash::FxHashMap;

/// The texts of one column.
pub(super) struct Dictionary {
    /// The texts by number.
    pub(super) words: ArrayRef,
    numbers: FxHashMap<String, i32>,
}

impl Dictionary {
    /// Sorts the texts and removes duplicates.
    pub(super) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut texts: Vec<&str> = texts.into_iter().collect();
        texts.sort_unstable();
        texts.dedup();
        let numbers = texts.iter().map(|text| (*text).to_owned()).zip(0..);
        Self {
            numbers: numbers.collect(),
            words: Arc::new(StringArray::from(texts)),
        }
    }

    /// The number of a text.
    ///
    /// # Errors
    /// The text is not one of the capture's names.
    pub(super) fn number(&self, text: &str) -> Result<i32, ArrowError> {
        let number = self.numbers.get(text).copied();
        number.ok_or_else(|| {
            ArrowError::InvalidArgumentError(format!("{text:?} is none of the capture's names"))
        })
    }

    /// The same for an optional text.
    pub(super) fn number_of(&self, text: Option<&str>) -> Result<Option<i32>, ArrowError> {
        text.map(|text| self.number(text)).transpose()
    }
}

/// The texts of a column, in a fixed order, for a column with the same texts in all captures.
pub(super) fn fixed(words: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(words.to_vec()))
}
