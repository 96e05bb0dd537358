//! Tables of handles: what callers create, set, ask and destroy.

use crate::status::{Done, Status, pointer, status};
use gpumem_sim_client::ffi::{Handle, Out};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A number that no handle of this process had before: one that is used after its end is never
/// another one's.
pub fn new_handle() -> Handle {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
    NEXT.fetch_add(16, Ordering::Relaxed)
}

/// Objects of one kind by their handles.
#[derive(Debug)]
pub struct Objects<T>(Mutex<BTreeMap<Handle, T>>);

impl<T: Clone + Default> Objects<T> {
    /// None yet.
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
    /// `BAD_PARAM` if there is no place.
    pub fn insert(&self, place: Out<Handle>, object: T) -> Done {
        let handle = new_handle();
        pointer(place.put(handle))?;
        self.all().insert(handle, object);
        Ok(())
    }

    /// `cudnnDestroy…`: of nothing too, as NVIDIA's.
    pub fn destroy(&self, handle: Handle) -> Status {
        let known = handle == 0 || self.all().remove(&handle).is_some();
        status(known.then_some(()).ok_or(Status::BAD_PARAM))
    }

    /// Gives it another value.
    ///
    /// # Errors
    /// `BAD_PARAM` if there is none.
    pub fn set(&self, handle: Handle, value: T) -> Done {
        let mut all = self.all();
        *all.get_mut(&handle).ok_or(Status::BAD_PARAM)? = value;
        Ok(())
    }

    /// A copy of it.
    ///
    /// # Errors
    /// `BAD_PARAM` if there is none.
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
