//! A column under construction.

use std::sync::Arc;

use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::{ArrayRef, ArrowPrimitiveType, DictionaryArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

use super::words::Owned;
use crate::export::events::Numbers;

/// Rows of a batch: what is kept until it is written.
pub(super) const BATCH: usize = 1 << 16;

/// Rows, each with its owner.
pub(super) struct Chunk<'a> {
    pub(super) rows: &'a [Numbers],
    /// For each row an index into `owners`.
    pub(super) places: &'a [u32],
    pub(super) owners: &'a [Owned],
}

/// A column of a batch.
pub(super) trait Column {
    /// Appends rows. The length of each chunk of a batch except the last is a multiple of 64.
    fn extend(&mut self, chunk: &Chunk<'_>);

    /// The values, without a copy. The column is empty afterwards.
    fn array(&mut self) -> Result<ArrayRef, ArrowError>;
}

/// Numbers that `of` extracts from rows.
pub(super) struct Values<T: ArrowPrimitiveType, F> {
    values: Vec<T::Native>,
    /// A bit for each value; set if the value is present.
    bits: Vec<u64>,
    of: F,
}

impl<T: ArrowPrimitiveType, F> Values<T, F> {
    pub(super) fn new(of: F) -> Self {
        Self {
            values: Vec::with_capacity(BATCH),
            bits: Vec::with_capacity(BATCH / 64),
            of,
        }
    }

    fn taken(&mut self) -> PrimitiveArray<T> {
        let values = std::mem::replace(&mut self.values, Vec::with_capacity(BATCH));
        let bits = std::mem::replace(&mut self.bits, Vec::with_capacity(BATCH / 64));
        let bits = BooleanBuffer::new(Buffer::from_vec(bits), 0, values.len());
        let nulls = Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0);
        PrimitiveArray::new(ScalarBuffer::from(values), nulls)
    }
}

impl<T, F> Column for Values<T, F>
where
    T: ArrowPrimitiveType,
    F: Fn(&Numbers, &Owned) -> Option<T::Native>,
{
    fn extend(&mut self, chunk: &Chunk<'_>) {
        for (rows, places) in chunk.rows.chunks(64).zip(chunk.places.chunks(64)) {
            let mut bits = 0;
            let rows = rows.iter().zip(places).enumerate();
            self.values.extend(rows.map(|(at, (row, place))| {
                let value = (self.of)(row, &chunk.owners[*place as usize]);
                bits |= u64::from(value.is_some()) << at;
                value.unwrap_or_default()
            }));
            self.bits.push(bits);
        }
    }

    fn array(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.taken()))
    }
}

/// Texts, as indices into a dictionary.
pub(super) struct Texts<T: ArrowPrimitiveType, F> {
    pub(super) keys: Values<T, F>,
    pub(super) words: ArrayRef,
}

impl<T, F> Column for Texts<T, F>
where
    T: ArrowDictionaryKeyType,
    F: Fn(&Numbers, &Owned) -> Option<T::Native>,
{
    fn extend(&mut self, chunk: &Chunk<'_>) {
        self.keys.extend(chunk);
    }

    fn array(&mut self) -> Result<ArrayRef, ArrowError> {
        let (keys, words) = (self.keys.taken(), Arc::clone(&self.words));
        Ok(Arc::new(DictionaryArray::try_new(keys, words)?))
    }
}
