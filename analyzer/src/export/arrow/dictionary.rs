//! Texts by number, all of them known before the first row.

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
    /// Of these texts in alphabetical order, each once.
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
    /// It is none of the capture's names.
    pub(super) fn number(&self, text: &str) -> Result<i32, ArrowError> {
        let number = self.numbers.get(text).copied();
        number.ok_or_else(|| {
            ArrowError::InvalidArgumentError(format!("{text:?} is none of the capture's names"))
        })
    }

    /// The same where there is a text.
    pub(super) fn number_of(&self, text: Option<&str>) -> Result<Option<i32>, ArrowError> {
        text.map(|text| self.number(text)).transpose()
    }
}

/// A column's texts that are the same for all captures, in a fixed order.
pub(super) fn fixed(words: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(words.to_vec()))
}
