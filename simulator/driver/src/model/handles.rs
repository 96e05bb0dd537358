//! Handles: numbers that represent the driver's objects.
//!
//! A handle is never dereferenced, so an invalid one is an error, not a crash. Each kind of handle
//! has its own range, which is never mapped, and handles are never reused.

use std::collections::BTreeMap;

/// Objects of one kind by handle.
#[derive(Debug)]
pub struct Handles<T> {
    next: usize,
    live: BTreeMap<usize, T>,
}

impl<T> Handles<T> {
    /// No objects; `kind` (1–255) selects the range of their handles.
    pub fn new(kind: u8) -> Self {
        Self {
            next: (0x5c_0000 | usize::from(kind)) << 32 | 0x1000,
            live: BTreeMap::new(),
        }
    }

    /// Reserves a handle for [`insert_at`](Self::insert_at).
    pub fn reserve(&mut self) -> usize {
        let handle = self.next;
        self.next += 0x10;
        handle
    }

    /// Stores `object` and returns its handle.
    pub fn insert(&mut self, object: T) -> usize {
        let handle = self.reserve();
        self.live.insert(handle, object);
        handle
    }

    /// Stores `object` under a reserved handle.
    pub fn insert_at(&mut self, handle: usize, object: T) {
        self.live.insert(handle, object);
    }

    /// The object of `handle`.
    pub fn get(&self, handle: usize) -> Option<&T> {
        self.live.get(&handle)
    }

    /// The mutable object of `handle`.
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut T> {
        self.live.get_mut(&handle)
    }

    /// Removes the object.
    pub fn remove(&mut self, handle: usize) -> Option<T> {
        self.live.remove(&handle)
    }

    /// Every live object.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.live.iter().map(|(handle, object)| (*handle, object))
    }

    /// Every live object, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.live
            .iter_mut()
            .map(|(handle, object)| (*handle, object))
    }

    /// Drops the objects for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.live.retain(|_, object| keep(object));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_never_given_out_twice_and_kinds_never_meet() {
        let mut a = Handles::new(1);
        let mut b = Handles::new(2);
        let first = a.insert("first");
        assert_eq!(a.remove(first), Some("first"));
        let second = a.insert("second");
        assert_ne!(first, second);
        assert_ne!(b.insert("other"), first);
        assert_eq!(a.get(first), None);
        assert_eq!(a.get(second), Some(&"second"));
    }
}
