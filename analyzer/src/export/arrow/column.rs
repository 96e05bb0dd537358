//! A column under construction.

use std::sync::Arc;

use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::{ArrayRef, ArrowPrimitiveType, DictionaryArray, PrimitiveArray};
use arrow_buffer::{NullBufferBuilder, ScalarBuffer};
use arrow_schema::ArrowError;

use super::BATCH;

/// The values of the rows so far, and where they are missing.
pub(super) struct Column<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> Default for Column<T> {
    fn default() -> Self {
        Self {
            values: Vec::with_capacity(BATCH),
            nulls: NullBufferBuilder::new(BATCH),
        }
    }
}

impl<T: ArrowPrimitiveType> Column<T> {
    #[inline]
    pub(super) fn push(&mut self, value: T::Native) {
        self.values.push(value);
        self.nulls.append_non_null();
    }

    #[inline]
    pub(super) fn push_option(&mut self, value: Option<T::Native>) {
        self.values.push(value.unwrap_or_default());
        self.nulls.append(value.is_some());
    }

    pub(super) fn rows(&self) -> usize {
        self.values.len()
    }

    /// The values, without a copy; the column is empty then.
    fn taken(&mut self) -> PrimitiveArray<T> {
        let values = std::mem::replace(&mut self.values, Vec::with_capacity(BATCH));
        PrimitiveArray::new(ScalarBuffer::from(values), self.nulls.finish())
    }

    pub(super) fn array(&mut self) -> ArrayRef {
        Arc::new(self.taken())
    }

    /// The same of places in a dictionary.
    pub(super) fn texts(&mut self, words: &ArrayRef) -> Result<ArrayRef, ArrowError>
    where
        T: ArrowDictionaryKeyType,
    {
        let keys = self.taken();
        Ok(Arc::new(DictionaryArray::try_new(keys, Arc::clone(words))?))
    }
}
