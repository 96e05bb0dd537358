//! The pool that is active on this thread, in releases with active pools (2.5 to 2.7).
//!
//! The active pool is a PyTorch `MemPool`. A replay cannot create one, because a new `MemPool` gets its own number and
//! counts as a use of the pool. So a replay passes a few words that PyTorch's functions read as a `MemPool` with the
//! recorded number.

use core::mem::transmute;

use gpumem_torch_abi::{
    ACTIVATE, ACTIVE_POOL, Address, DEACTIVATE, IdOf, Library, POOL_ALLOCATOR, POOL_ID, PoolId,
};

use crate::real;

/// Space for PyTorch's pool, in words.
const WORDS: usize = 16;

/// PyTorch's functions.
#[derive(Debug)]
pub(crate) struct ActivePool {
    enter: Enter,
    leave: Leave,
    /// The word of a pool at which its number begins.
    number: usize,
}

type Enter = unsafe extern "C-unwind" fn(&mut [u64; WORDS], usize);
type Leave = unsafe extern "C-unwind" fn(&mut [u64; WORDS]);

impl ActivePool {
    /// `None` if this release has no active pools, or differs from the known ones.
    pub(crate) fn find() -> Option<Self> {
        let function = |name| Some(real::torch(Library::C10Cuda, name)).filter(|&at| at != 0);
        // SAFETY: these are PyTorch's functions of these types.
        let (enter, leave, active, id, allocator) = unsafe {
            (
                transmute::<usize, Enter>(function(ACTIVATE)?),
                transmute::<usize, Leave>(function(DEACTIVATE)?),
                transmute::<usize, Address>(function(ACTIVE_POOL)?),
                transmute::<usize, IdOf>(function(POOL_ID)?),
                transmute::<usize, Address>(function(POOL_ALLOCATOR)?),
            )
        };
        let number = number_at(id)?;
        let found = Self {
            enter,
            leave,
            number,
        };
        let pool = found.pool((1, 2));
        let at = pool.as_ptr() as usize;
        // SAFETY: they read a pool's words; `pool` has more words than a pool.
        let is_it = unsafe { id(at) == PoolId(1, 2) && allocator(at) == 0 };
        let is_active = found.with((1, 2), || {
            // SAFETY: the pool outlives the time in which it is active; the first function takes no arguments.
            let of_active = unsafe {
                match active(0) {
                    0 => None,
                    pool => Some(id(pool)),
                }
            };
            of_active == Some(PoolId(1, 2))
        });
        // SAFETY: it takes no arguments.
        (is_it && is_active && unsafe { active(0) } == 0).then_some(found)
    }

    /// Makes a call while a pool with this number is active.
    pub(crate) fn with<T>(&self, number: (u64, u64), call: impl FnOnce() -> T) -> T {
        let pool = self.pool(number);
        let mut context = [0; WORDS];
        // SAFETY: the context stores the previously active pool, and this pool outlives it.
        unsafe { (self.enter)(&mut context, pool.as_ptr() as usize) };
        let result = call();
        // SAFETY: the context is the one that `enter` filled.
        unsafe { (self.leave)(&mut context) };
        result
    }

    fn pool(&self, (first, second): (u64, u64)) -> [u64; WORDS] {
        let mut pool = [0; WORDS];
        (pool[self.number], pool[self.number + 1]) = (first, second);
        pool
    }
}

/// The word of a pool at which its number begins, found with the function that returns the number.
fn number_at(id: IdOf) -> Option<usize> {
    let words: [u64; WORDS] = core::array::from_fn(|n| 1000 + n as u64);
    // SAFETY: it reads two words of a pool, which has no more words than these.
    let PoolId(first, second) = unsafe { id(words.as_ptr() as usize) };
    let at = first.checked_sub(1000)? as usize;
    (at < WORDS - 1 && second == first + 1).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C-unwind" fn at_two(pool: usize) -> PoolId {
        let words = pool as *const u64;
        // SAFETY: the test passes a pool's words.
        unsafe { PoolId(words.add(2).read(), words.add(3).read()) }
    }

    unsafe extern "C-unwind" fn nowhere(_: usize) -> PoolId {
        PoolId(5, 6)
    }

    #[test]
    fn the_function_says_where_the_number_is() {
        assert_eq!(number_at(at_two), Some(2));
        assert_eq!(number_at(nowhere), None);
    }
}
