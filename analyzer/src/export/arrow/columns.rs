//! The columns of a batch: the same as in Parquet, in the same order.

use std::sync::Arc;

use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int32Type, Int64Type, UInt8Type, UInt32Type,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType};
use arrow_schema::{ArrowError, DataType, Field};
use gpumem_capture::Level;

use super::column::{Column, Texts, Values};
use super::words::{Owned, OwnerWords, apis, categories, kinds, levels, phases, ranges};
use crate::export::events::Numbers;
use crate::names::Names;

/// A column with its name and type.
pub(super) struct Named {
    pub(super) field: Field,
    pub(super) column: Box<dyn Column>,
}

/// A column of numbers.
fn numbers<T: ArrowPrimitiveType>(
    name: &str,
    of: impl Fn(&Numbers, &Owned) -> Option<T::Native> + 'static,
) -> Named {
    Named {
        field: Field::new(name, T::DATA_TYPE, true),
        column: Box::new(Values::<T, _>::new(of)),
    }
}

/// A column of texts.
fn texts<T: ArrowDictionaryKeyType>(
    name: &str,
    words: &ArrayRef,
    of: impl Fn(&Numbers, &Owned) -> Option<T::Native> + 'static,
) -> Named {
    let kind = DataType::Dictionary(Box::new(T::DATA_TYPE), Box::new(DataType::Utf8));
    Named {
        field: Field::new(name, kind, true),
        column: Box::new(Texts {
            keys: Values::<T, _>::new(of),
            words: Arc::clone(words),
        }),
    }
}

/// A 64-bit number as a signed one, which all readers support. Those above 2^63 - 1 keep their bits.
fn signed(number: u64) -> i64 {
    number as i64
}

/// All columns.
pub(super) fn all(names: &Names, owners: &OwnerWords) -> Result<Vec<Named>, ArrowError> {
    let (kinds, kind_places) = kinds();
    let (apis, api_places) = apis(names)?;
    let (ranges, range_places) = ranges(names)?;
    let unknown = Level::COUNT as u8;
    let columns = vec![
        numbers::<Int64Type>("seq", |row, _| Some(signed(row.seq))),
        numbers::<Int64Type>("time_ns", |row, _| Some(signed(row.time_ns))),
        texts::<Int8Type>("kind", &kinds, move |row, _| {
            Some(kind_places[usize::from(row.kind.0)])
        }),
        texts::<Int8Type>("level", &levels(), move |row, _| {
            row.level.map(|level| level.0.min(unknown) as i8)
        }),
        numbers::<UInt8Type>("device", |row, _| row.device),
        numbers::<Int64Type>("ptr", |row, _| Some(signed(row.ptr))),
        numbers::<Int64Type>("bytes", |row, _| Some(signed(row.bytes))),
        numbers::<Int64Type>("live_bytes", |row, _| row.live_bytes.map(signed)),
        numbers::<Int64Type>("block_seq", |row, _| row.block_seq.map(signed)),
        numbers::<UInt32Type>("thread", |row, _| Some(row.thread)),
        texts::<Int32Type>("api", &apis, move |row, _| {
            api_places.get(usize::from(row.api.0)).copied().flatten()
        }),
        texts::<Int32Type>("file", &owners.files.words, |_, of| of.file),
        numbers::<UInt32Type>("line", |_, of| of.line),
        texts::<Int32Type>("function", &owners.functions.words, |_, of| of.function),
        texts::<Int32Type>("node", &owners.nodes.words, |_, of| of.node),
        texts::<Int32Type>("library", &owners.libraries.words, |_, of| of.library),
        texts::<Int8Type>("phase", &phases(), |_, of| of.phase),
        numbers::<Int64Type>("step", |row, _| row.step.map(signed)),
        texts::<Int32Type>("range", &ranges, move |row, _| {
            row.range
                .and_then(|range| range_places.get(&range).copied())
        }),
        texts::<Int8Type>("category", &categories(), |row, _| {
            row.category.map(|category| category as i8)
        }),
        numbers::<UInt32Type>("python_stack", |row, _| {
            row.stacks.map(|(_, stacks)| stacks.py.0)
        }),
        numbers::<UInt32Type>("native_stack", |row, _| {
            row.stacks.map(|(_, stacks)| stacks.native.0)
        }),
    ];
    Ok(columns)
}

/// Whether a column depends on the categories of tensors.
pub(super) fn is_of_categories(name: &str) -> bool {
    ["phase", "category"].contains(&name)
}

/// Whether a column describes the owner of an event.
pub(super) fn is_of_owners(name: &str) -> bool {
    ["file", "line", "function", "node", "library", "phase"].contains(&name)
}
