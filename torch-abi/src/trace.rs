//! Entries of the allocator's trace.

/// `TraceEntry`, its first fields, which are the same since 2.2.
#[repr(C)]
#[derive(Debug)]
pub struct TraceEntry {
    /// What was done: [`TraceEntry::ALLOC`] and so on.
    pub action: i32,
    /// The device: in 2.2 an int, of which this is the low byte.
    pub device: u8,
    /// Address.
    pub ptr: u64,
    /// A `shared_ptr` of the stack.
    pub context: [u64; 2],
    /// `cudaStream_t`.
    pub stream: u64,
    /// The requested bytes.
    pub bytes: u64,
}

/// The fields after the first ones.
#[repr(C)]
struct WithPool {
    first: TraceEntry,
    pool: [u64; 2],
    time: u64,
}

/// Which fields follow the first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// The time: up to 2.7.
    Time,
    /// The pool, and then the time.
    PoolAndTime,
}

/// The maximum age of an entry that is read, by the processor's clock: some seconds.
const AGE: u64 = 1 << 33;

impl TraceEntry {
    /// A block was allocated.
    pub const ALLOC: i32 = 0;
    /// The program freed one.
    pub const FREE_REQUESTED: i32 = 1;
    /// The block returned to the pool.
    pub const FREE_COMPLETED: i32 = 2;
    /// A segment was allocated from CUDA.
    pub const SEGMENT_ALLOC: i32 = 3;
    /// A segment was freed.
    pub const SEGMENT_FREE: i32 = 4;
    /// Memory was mapped into an expandable segment.
    pub const SEGMENT_MAP: i32 = 5;
    /// Memory was unmapped from an expandable segment.
    pub const SEGMENT_UNMAP: i32 = 6;
    /// There was no memory for a block.
    pub const OOM: i32 = 8;

    /// The fields after the first ones of an entry that was just created. The position of the creation time, by the
    /// processor's clock, determines them. None if it is in no known position.
    ///
    /// # Safety
    /// It is an entry of the allocator.
    pub unsafe fn tail(&self, now: u64) -> Option<Tail> {
        let is_of_now = |time: u64| now.wrapping_sub(time) < AGE;
        let this = core::ptr::from_ref(self).cast::<WithPool>();
        // SAFETY: each release has a word behind the first fields.
        if is_of_now(unsafe { (&raw const (*this).pool[0]).read() }) {
            return Some(Tail::Time);
        }
        // SAFETY: where the time is not the first word, a pool's two words are before it.
        is_of_now(unsafe { (&raw const (*this).time).read() }).then_some(Tail::PoolAndTime)
    }

    /// The pool.
    ///
    /// # Safety
    /// It is an entry of the allocator whose tail is [`Tail::PoolAndTime`].
    pub unsafe fn pool(&self) -> (u64, u64) {
        // SAFETY: the caller's promise.
        let [first, second] = unsafe { (*core::ptr::from_ref(self).cast::<WithPool>()).pool };
        (first, second)
    }
}

/// The processor's clock, which PyTorch uses for its entries.
#[inline]
pub fn clock() -> u64 {
    // SAFETY: every x86-64 has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pool: [u64; 2], time: u64) -> WithPool {
        WithPool {
            first: TraceEntry {
                action: 0,
                device: 0,
                ptr: 512,
                context: [0; 2],
                stream: 0,
                bytes: 100,
            },
            pool,
            time,
        }
    }

    /// The tail of an entry that is read `later` than it was created.
    fn tail(of: &WithPool, now: u64) -> Option<Tail> {
        // SAFETY: it has room for all that is read.
        unsafe { of.first.tail(now) }
    }

    #[test]
    fn the_time_says_what_follows() {
        let now = clock();
        assert_eq!(
            tail(&entry([0, 3], now), now + 500),
            Some(Tail::PoolAndTime)
        );
        assert_eq!(tail(&entry([0, 0], now), now), Some(Tail::PoolAndTime));
        // The words after an old entry belong to other data.
        assert_eq!(tail(&entry([now, 7], 8), now + 500), Some(Tail::Time));
        let made = entry([4, 5], now);
        // SAFETY: its tail has just been seen.
        assert_eq!(unsafe { made.first.pool() }, (4, 5));
    }

    #[test]
    fn an_entry_without_the_time_of_now_is_not_known() {
        let now = clock() | 1 << 40;
        assert_eq!(tail(&entry([1, 2], 3), now), None);
        assert_eq!(tail(&entry([now + 1, 2], now + 1), now), None);
        assert_eq!(tail(&entry([0, 0], now - AGE), now), None);
    }
}
