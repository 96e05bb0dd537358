//! Serialization of a replay's state: LEB128 numbers, one after the other, without separators.
//!
//! Any bytes can be read: the result is a value or `None`. A length is not trusted before as many bytes are there.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;

use gpumem_capture::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// A value of the state.
pub(crate) trait Serialize: Sized {
    /// Appends it to `to`.
    fn put(&self, to: &mut Vec<u8>);

    /// Takes it from the front of `from`; `None` if the bytes are no such value.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

impl Serialize for u64 {
    fn put(&self, to: &mut Vec<u8>) {
        let mut value = *self;
        while value >= 0x80 {
            to.push(value as u8 | 0x80);
            value >>= 7;
        }
        to.push(value as u8);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let (byte, rest) = from.split_first()?;
            *from = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift += 7;
        }
    }
}

/// Numbers that fit a u64.
macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Serialize for $number {
            fn put(&self, to: &mut Vec<u8>) {
                (*self as u64).put(to);
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                u64::take(from)?.try_into().ok()
            }
        }
    )*};
}

numbers!(u8, u16, u32, usize);

impl Serialize for i64 {
    fn put(&self, to: &mut Vec<u8>) {
        ((*self << 1) ^ (*self >> 63)).cast_unsigned().put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let value = u64::take(from)?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }
}

impl Serialize for i32 {
    fn put(&self, to: &mut Vec<u8>) {
        i64::from(*self).put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        i64::take(from)?.try_into().ok()
    }
}

impl Serialize for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(u8::take(from)? != 0)
    }
}

impl Serialize for String {
    fn put(&self, to: &mut Vec<u8>) {
        self.len().put(to);
        to.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let length = usize::take(from)?;
        let (text, rest) = from.split_at_checked(length)?;
        *from = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

impl<T: Serialize> Serialize for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(if bool::take(from)? {
            Some(T::take(from)?)
        } else {
            None
        })
    }
}

/// Writes items one after the other, preceded by their count.
fn put_all<'a, T: Serialize + 'a>(items: impl ExactSizeIterator<Item = &'a T>, to: &mut Vec<u8>) {
    items.len().put(to);
    for item in items {
        item.put(to);
    }
}

///  Reads them back. Each item takes at least one byte.
fn take_all<T: Serialize, C: FromIterator<T>>(from: &mut &[u8]) -> Option<C> {
    let count = usize::take(from)?;
    if count > from.len() {
        return None;
    }
    (0..count).map(|_| T::take(from)).collect()
}

impl<T: Serialize> Serialize for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        put_all(self.iter(), to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        take_all(from)
    }
}

impl<T: Serialize> Serialize for VecDeque<T> {
    fn put(&self, to: &mut Vec<u8>) {
        put_all(self.iter(), to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        take_all(from)
    }
}

impl<const N: usize> Serialize for [u8; N] {
    fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (bytes, rest) = from.split_first_chunk()?;
        *from = rest;
        Some(*bytes)
    }
}

impl<A: Serialize, B: Serialize> Serialize for (A, B) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

impl<K: Serialize + Ord, V: Serialize> Serialize for BTreeMap<K, V> {
    fn put(&self, to: &mut Vec<u8>) {
        self.len().put(to);
        for (key, value) in self {
            key.put(to);
            value.put(to);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        take_all(from)
    }
}

/// In the order of the keys, so that the same state gives the same bytes.
impl<K: Serialize + Ord + Hash + Copy, V: Serialize> Serialize for FxHashMap<K, V> {
    fn put(&self, to: &mut Vec<u8>) {
        let mut all: Vec<(&K, &V)> = self.iter().collect();
        all.sort_unstable_by_key(|(key, _)| **key);
        all.len().put(to);
        for (key, value) in all {
            key.put(to);
            value.put(to);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        take_all(from)
    }
}

impl<T: Serialize + Ord + Hash> Serialize for FxHashSet<T> {
    fn put(&self, to: &mut Vec<u8>) {
        let mut all: Vec<&T> = self.iter().collect();
        all.sort_unstable();
        put_all(all.into_iter(), to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        take_all(from)
    }
}

/// Serializes a struct as its fields, in that order. Every field must be named, so that no field is forgotten.
macro_rules! serialize {
    ($($of:ty { $($field:tt),* $(,)? })*) => {$(
        impl $crate::serialize::Serialize for $of {
            fn put(&self, to: &mut Vec<u8>) {
                $($crate::serialize::Serialize::put(&self.$field, to);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some(Self {
                    $($field: $crate::serialize::Serialize::take(from)?,)*
                })
            }
        }
    )*};
}

pub(crate) use serialize;

serialize! {
    Seq { 0 }
    Nanos { 0 }
    StackId { 0 }
    CodeId { 0 }
    ModuleId { 0 }
    ThreadId { 0 }
    ApiId { 0 }
    DeviceOrdinal { 0 }
    Level { 0 }
    EventFlags { 0 }
    PlacementId { 0 }
    EventKind { 0 }
    CounterValues { live, peak, allocations, frees, allocated_bytes }
    PyFrame { code, offset, entered_from_c }
    Event {
        time, ptr, bytes, aux, py_stack, native_stack, thread, kind, level, device, api, flags,
        placement, slack,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survives<T: Serialize + PartialEq + std::fmt::Debug>(value: T) {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(T::take(&mut &bytes[..length]), None, "{value:?} {length}");
        }
        let mut from = &bytes[..];
        assert_eq!(T::take(&mut from), Some(value));
        assert!(from.is_empty());
    }

    #[test]
    fn what_is_written_is_read_and_what_is_cut_off_is_not() {
        for number in [0, 1, 127, 128, u64::MAX / 2, u64::MAX] {
            survives(number);
            survives(number.cast_signed());
            survives(vec![(number, String::from("ä")), (0, String::new())]);
        }
        survives([i32::MIN, -1, 0, i32::MAX].map(i64::from).to_vec());
        survives(Some(3_u16));
        survives(FxHashMap::from_iter([(3_u32, true), (1, false)]));
        survives(BTreeMap::from([((1_u8, 2_u32), Some([1_u8, 2, 3]))]));
        survives(Event {
            time: Nanos(1),
            aux: u64::MAX,
            ..Event::default()
        });
    }

    #[test]
    fn hostile_counts_and_numbers_are_refused() {
        let mut bytes = Vec::new();
        u64::MAX.put(&mut bytes);
        assert_eq!(Vec::<u8>::take(&mut &bytes[..]), None);
        assert_eq!(String::take(&mut &bytes[..]), None);
        assert_eq!(u8::take(&mut &bytes[..]), None);
        assert_eq!(u64::take(&mut &[0xff; 40][..]), None);
    }
}
