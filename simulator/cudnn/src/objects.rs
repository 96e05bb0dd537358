//! Tables of handles, for objects that callers create, set, query and destroy.

use crate::status::{Done, Status, pointer, status};
use gpumem_sim_client::ffi::{Handle, Out};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A handle that this process has not used before, so a destroyed handle never denotes another
/// object.
pub fn new_handle() -> Handle {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
    NEXT.fetch_add(16, Ordering::Relaxed)
}

/// Objects of one kind by their handles.
#[derive(Debug)]
pub struct Objects<T>(Mutex<BTreeMap<Handle, T>>);

impl<T: Clone + Default> Objects<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Handle, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `cudnnCreate…Descriptor`.
    pub fn create(&self, place: Out<Handle>) -> Status {
        status(self.insert(place, T::default()))
    }

    /// A new object, whose handle goes to `place`.
    ///
    /// # Errors
    /// `BAD_PARAM` if the pointer is null.
    pub fn insert(&self, place: Out<Handle>, object: T) -> Done {
        let handle = new_handle();
        pointer(place.put(handle))?;
        self.all().insert(handle, object);
        Ok(())
    }

    /// `cudnnDestroy…`: a null handle is valid, as in NVIDIA's library.
    pub fn destroy(&self, handle: Handle) -> Status {
        let known = handle == 0 || self.all().remove(&handle).is_some();
        status(known.then_some(()).ok_or(Status::BAD_PARAM))
    }

    /// Sets the object's value.
    ///
    /// # Errors
    /// `BAD_PARAM` if the handle is unknown.
    pub fn set(&self, handle: Handle, value: T) -> Done {
        let mut all = self.all();
        *all.get_mut(&handle).ok_or(Status::BAD_PARAM)? = value;
        Ok(())
    }

    /// A copy of the object.
    ///
    /// # Errors
    /// `BAD_PARAM` if the handle is unknown.
    pub fn get(&self, handle: Handle) -> Done<T> {
        self.all().get(&handle).cloned().ok_or(Status::BAD_PARAM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_good_from_create_to_destroy() {
        static NUMBERS: Objects<i32> = Objects::new();
        let mut handle = 0;
        assert_eq!(NUMBERS.create(Out::NOWHERE), Status::BAD_PARAM);
        assert_eq!(NUMBERS.create(Out::to(&mut handle)), Status::SUCCESS);
        assert_eq!(NUMBERS.set(handle, 5), Ok(()));
        assert_eq!(NUMBERS.get(handle), Ok(5));
        assert_eq!(NUMBERS.destroy(handle), Status::SUCCESS);
        assert_eq!(NUMBERS.destroy(handle), Status::BAD_PARAM);
        assert_eq!(NUMBERS.get(handle), Err(Status::BAD_PARAM));
        assert_eq!(NUMBERS.set(handle, 1), Err(Status::BAD_PARAM));
        assert_eq!(NUMBERS.destroy(0), Status::SUCCESS);
    }
}
