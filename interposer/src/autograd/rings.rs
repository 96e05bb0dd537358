//! The bounded map from an autograd node to the place in the program that made it.
//!
//! PyTorch numbers the nodes that a thread makes densely, and its threads with small integers that are
//! never used again: the two are the key. Each thread that makes nodes has a ring of the newest of
//! them, written by that thread alone and read by all. A ring grows while its nodes come, up to a
//! limit, and all rings together up to another. They stay when their thread ends, until there is no more
//! room for new ones: then that of the thread that ended first goes to a new thread. A node whose place
//! was written over, or whose ring is another thread's by now, is *lost*: never is another node's place
//! given for it.
//!
//! ```text
//!  ring of thread 7, 8 places:   next = 21
//!  ┌────┬────┬────┬────┬────┬────┬────┬────┐
//!  │ 16 │ 17 │ 18 │ 19 │ 20 │ 13 │ 14 │ 15 │   place = node & 7; 13 to 20 are there, 12 is lost
//!  └────┴────┴────┴────┴────┴────┴────┴────┘
//! ```

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::alloc::{Layout, alloc_zeroed};

/// Places of a new ring.
const FIRST_PLACES: usize = 1 << 12;
/// Places of the largest ring: about 22,000 layers of a transformer.
const MOST_PLACES: usize = 1 << 20;
/// How many times its places a ring has after it has grown.
const GROWTH: usize = 4;
/// Bytes that all rings may take. New ones take half of it before they take those of ended threads: so
/// the rings of threads that live on can grow.
const LIMIT: usize = 32 << 20;

/// Rings of one chunk of the directory, and chunks: room for a million threads.
const CHUNK: usize = 1 << 10;
type Chunk = [AtomicPtr<Ring>; CHUNK];

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Its place, as [`Ring::put`] was given it.
    Place(u32),
    /// It was made before the thread had a ring: before the recording.
    Before,
    /// Its place was written over, or its thread's ring went to another one.
    Overwritten,
    /// The thread has no ring, or has not made that node: no node of this program.
    Unknown,
}

/// Places, zeros at first; their number is a power of two.
struct Places {
    ids: &'static [AtomicU32],
}

impl Places {
    /// None if there is no memory.
    fn new(count: usize) -> Option<*mut Self> {
        let layout = Layout::array::<AtomicU32>(count).ok()?;
        // SAFETY: the layout is not of size 0.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return None;
        }
        // SAFETY: zeros are valid numbers; the memory is never given back.
        let ids = unsafe { core::slice::from_raw_parts(start.cast::<AtomicU32>(), count) };
        Some(Box::into_raw(Box::new(Self { ids })))
    }

    /// Where a node's place is.
    fn at(&self, node: u64) -> Option<&AtomicU32> {
        self.ids.get(node as usize & (self.ids.len() - 1))
    }
}

/// The newest nodes of one thread.
pub(super) struct Ring {
    /// The thread to which it belongs; 0 while it goes from one to another.
    thread: AtomicU64,
    places: AtomicPtr<Places>,
    /// The thread's first node that came here.
    first: AtomicU64,
    /// One more than its newest.
    next: AtomicU64,
    /// When its thread ended, counted in ends; 0: it has not.
    ended: AtomicU64,
    /// The ring that was made before it.
    older: AtomicPtr<Ring>,
}

impl Ring {
    /// The ring's thread ends: when there is no more room, another one may have it.
    pub(super) fn end(&self, map: &Map) {
        let count = map.ends.fetch_add(1, Ordering::Relaxed) + 1;
        self.ended.store(count, Ordering::Release);
    }

    /// Takes the ring of a thread that ended at that count; false if somebody else did.
    fn take(&self, ended: u64) -> bool {
        let swap = self
            .ended
            .compare_exchange(ended, 0, Ordering::AcqRel, Ordering::Relaxed);
        swap.is_ok()
    }

    /// The ring again, for a thread that makes a node after its end was told; None if it is not its own
    /// any more, or in use.
    fn go_on(&self, thread: u64) -> Option<&Self> {
        let ended = self.ended.load(Ordering::Acquire);
        // It can be taken at that count only while it belongs to the thread that ended at it.
        let is_own = ended != 0 && self.thread.load(Ordering::Relaxed) == thread;
        (is_own && self.take(ended)).then_some(self)
    }

    /// Makes a ring that was taken that of a thread, whose first node is `node`.
    fn pass_on(&self, thread: u64, node: u64) {
        // Told first, so that who reads what is written below knows that it is not the older thread's.
        self.thread.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        self.first.store(node, Ordering::Relaxed);
        self.next.store(node, Ordering::Relaxed);
        self.thread.store(thread, Ordering::Release);
    }

    fn places(&self) -> &'static Places {
        // SAFETY: never null, and never given back.
        unsafe { &*self.places.load(Ordering::Acquire) }
    }

    /// Notes the place of a node of the calling thread, to which the ring belongs.
    pub(super) fn put(&self, map: &Map, node: u64, id: u32) {
        let mut next = self.next.load(Ordering::Relaxed);
        if node < next {
            return;
        }
        let mut places = self.places();
        if node - self.first.load(Ordering::Relaxed) >= places.ids.len() as u64
            && let Some(larger) = self.grow(map, places, next)
        {
            places = larger;
        }
        // Told first, so that who reads what is written below knows that the older node is gone.
        self.next.store(node + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        // Nodes that went by have no place.
        next = next.max((node + 1).saturating_sub(places.ids.len() as u64));
        while next < node {
            if let Some(place) = places.at(next) {
                place.store(0, Ordering::Release);
            }
            next += 1;
        }
        if let Some(place) = places.at(node) {
            place.store(id, Ordering::Release);
        }
    }

    /// More places, if there may be more. The old ones stay readable: a reader may be at them.
    #[cold]
    fn grow(&self, map: &Map, old: &Places, next: u64) -> Option<&'static Places> {
        let (count, larger) = (old.ids.len(), old.ids.len() * GROWTH);
        if larger > MOST_PLACES || !map.reserve(larger) {
            return None;
        }
        let new = Places::new(larger)?;
        // SAFETY: just made, and never given back.
        let places = unsafe { &*new };
        let first = self.first.load(Ordering::Relaxed);
        for node in first.max(next.saturating_sub(count as u64))..next {
            if let (Some(from), Some(to)) = (old.at(node), places.at(node)) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        self.places.store(new, Ordering::Release);
        Some(places)
    }

    /// What is known of a node of a thread to which the ring belongs, or belonged.
    fn get(&self, thread: u64, node: u64) -> Found {
        loop {
            let pointer = self.places.load(Ordering::Acquire);
            let places = self.places();
            let id = places
                .at(node)
                .map_or(0, |place| place.load(Ordering::Acquire));
            fence(Ordering::Acquire);
            let next = self.next.load(Ordering::Relaxed);
            let first = self.first.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if self.thread.load(Ordering::Relaxed) != thread {
                return Found::Overwritten;
            }
            if node >= next {
                return Found::Unknown;
            }
            if node < first {
                return Found::Before;
            }
            if next - node <= places.ids.len() as u64 {
                return Found::Place(id);
            }
            if pointer == self.places.load(Ordering::Acquire) {
                return Found::Overwritten;
            }
        }
    }
}

/// The rings of all threads.
pub(super) struct Map {
    chunks: [AtomicPtr<Chunk>; CHUNK],
    /// The newest ring.
    newest: AtomicPtr<Ring>,
    /// Threads with a ring that have ended, some of them more than once.
    ends: AtomicU64,
    /// Bytes that the rings take.
    bytes: AtomicUsize,
    limit: usize,
}

impl Map {
    /// Knows no thread.
    pub(super) const fn new() -> Self {
        Self::with_limit(LIMIT)
    }

    const fn with_limit(limit: usize) -> Self {
        Self {
            chunks: [const { AtomicPtr::new(core::ptr::null_mut()) }; CHUNK],
            newest: AtomicPtr::new(core::ptr::null_mut()),
            ends: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            limit,
        }
    }

    /// Takes room for that many places; false if there is none left.
    fn reserve(&self, places: usize) -> bool {
        self.reserve_within(self.limit, places)
    }

    fn reserve_within(&self, limit: usize, places: usize) -> bool {
        let more = places * size_of::<AtomicU32>();
        if self.bytes.load(Ordering::Relaxed) + more > limit {
            return false;
        }
        let sum = |bytes: usize| (bytes + more <= limit).then_some(bytes + more);
        self.bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum)
            .is_ok()
    }

    /// The directory's entry of a thread; the chunk is made if it is missing and `make` says so.
    fn entry(&self, thread: u64, make: bool) -> Option<&'static AtomicPtr<Ring>> {
        let thread = usize::try_from(thread).ok()?;
        let chunk = self.chunks.get(thread / CHUNK)?;
        let mut known = chunk.load(Ordering::Acquire);
        if known.is_null() && make {
            let new: *mut Chunk = Box::into_raw(Box::new(
                [const { AtomicPtr::new(core::ptr::null_mut()) }; CHUNK],
            ));
            let swap = chunk.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire);
            known = match swap {
                Ok(_) => new,
                Err(other) => {
                    // SAFETY: made above and given to nobody.
                    drop(unsafe { Box::from_raw(new) });
                    other
                }
            };
        }
        // SAFETY: null, or a chunk that is never given back.
        unsafe { known.as_ref() }?.get(thread % CHUNK)
    }

    /// A ring for a thread that makes its first node here; None if there is no room for one.
    #[cold]
    pub(super) fn ring_for(&self, thread: u64, node: u64) -> Option<&'static Ring> {
        let entry = self.entry(thread, true)?;
        // SAFETY: null, or a ring that is never given back.
        if let Some(known) = unsafe { entry.load(Ordering::Acquire).as_ref() } {
            return known.go_on(thread);
        }
        let ring = self
            .make_within(self.limit / 2, thread, node)
            .or_else(|| self.pass_on(thread, node))
            .or_else(|| self.make_within(self.limit, thread, node))?;
        entry.store(core::ptr::from_ref(ring).cast_mut(), Ordering::Release);
        Some(ring)
    }

    /// A new ring, if all take no more than `limit` with it.
    fn make_within(&self, limit: usize, thread: u64, node: u64) -> Option<&'static Ring> {
        if !self.reserve_within(limit, FIRST_PLACES) {
            return None;
        }
        let ring: &'static Ring = Box::leak(Box::new(Ring {
            thread: AtomicU64::new(thread),
            places: AtomicPtr::new(Places::new(FIRST_PLACES)?),
            first: AtomicU64::new(node),
            next: AtomicU64::new(node),
            ended: AtomicU64::new(0),
            older: AtomicPtr::new(core::ptr::null_mut()),
        }));
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            ring.older.store(newest, Ordering::Relaxed);
            let new = core::ptr::from_ref(ring).cast_mut();
            let swap =
                self.newest
                    .compare_exchange(newest, new, Ordering::Release, Ordering::Relaxed);
            match swap {
                Ok(_) => return Some(ring),
                Err(other) => newest = other,
            }
        }
    }

    /// The ring of the thread that ended first, for another one.
    fn pass_on(&self, thread: u64, node: u64) -> Option<&'static Ring> {
        loop {
            let mut first: Option<(u64, &'static Ring)> = None;
            let mut at = self.newest.load(Ordering::Acquire);
            // SAFETY: null, or a ring that is never given back.
            while let Some(ring) = unsafe { at.as_ref() } {
                let ended = ring.ended.load(Ordering::Relaxed);
                if ended != 0 && first.is_none_or(|(earlier, _)| ended < earlier) {
                    first = Some((ended, ring));
                }
                at = ring.older.load(Ordering::Relaxed);
            }
            let (ended, ring) = first?;
            if ring.take(ended) {
                ring.pass_on(thread, node);
                return Some(ring);
            }
        }
    }

    /// What is known of a node of a thread.
    pub(super) fn get(&self, thread: u64, node: u64) -> Found {
        let ring = self
            .entry(thread, false)
            // SAFETY: null, or a ring that is never given back.
            .and_then(|entry| unsafe { entry.load(Ordering::Acquire).as_ref() });
        ring.map_or(Found::Unknown, |ring| ring.get(thread, node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    /// A place that tells its node and thread.
    fn id_of(thread: u64, node: u64) -> u32 {
        (node as u32).wrapping_mul(2_654_435_761) ^ (thread as u32) << 24 | 1
    }

    fn filled(map: &Map, thread: u64, first: u64, count: u64) -> &'static Ring {
        let ring = map.ring_for(thread, first).unwrap();
        for node in first..first + count {
            ring.put(map, node, id_of(thread, node));
        }
        ring
    }

    #[test]
    fn a_ring_grows_and_keeps_all_of_its_nodes() {
        let map = Map::new();
        let count = MOST_PLACES as u64;
        filled(&map, 3, 100, count);
        for node in 100..100 + count {
            assert_eq!(map.get(3, node), Found::Place(id_of(3, node)));
        }
        assert_eq!(map.get(3, 99), Found::Before);
        assert_eq!(map.get(3, 100 + count), Found::Unknown);
        assert_eq!(map.get(4, 100), Found::Unknown);
        assert_eq!(map.get(u64::MAX, 100), Found::Unknown);
    }

    #[test]
    fn what_is_written_over_is_lost_and_nothing_else() {
        let map = Map::new();
        let (most, over) = (MOST_PLACES as u64, 1000);
        filled(&map, 1, 0, most + over);
        for node in 0..over {
            assert_eq!(map.get(1, node), Found::Overwritten);
        }
        for node in over..most + over {
            assert_eq!(map.get(1, node), Found::Place(id_of(1, node)));
        }
    }

    #[test]
    fn nodes_that_went_by_have_no_place() {
        let map = Map::new();
        let ring = filled(&map, 1, 0, 5000);
        ring.put(&map, 7000, 7);
        assert_eq!(map.get(1, 4999), Found::Place(id_of(1, 4999)));
        assert!((5000..7000).all(|node| map.get(1, node) == Found::Place(0)));
        assert_eq!(map.get(1, 7000), Found::Place(7));
        // So many that nothing older is left, in a ring that cannot grow that far.
        ring.put(&map, 1 << 40, 9);
        assert_eq!(map.get(1, 7000), Found::Overwritten);
        assert_eq!(map.get(1, (1 << 40) - 1), Found::Place(0));
        assert_eq!(map.get(1, 1 << 40), Found::Place(9));
        // Numbers do not go back.
        ring.put(&map, 7000, 8);
        assert_eq!(map.get(1, 7000), Found::Overwritten);
    }

    #[test]
    fn the_rings_of_ended_threads_stay() {
        let map: &'static Map = Box::leak(Box::new(Map::new()));
        for thread in 1..=50u64 {
            std::thread::spawn(move || filled(map, thread, thread, 10))
                .join()
                .unwrap();
        }
        for thread in 1..=50u64 {
            for node in thread..thread + 10 {
                assert_eq!(map.get(thread, node), Found::Place(id_of(thread, node)));
            }
        }
    }

    #[test]
    fn all_together_stay_within_the_limit() {
        let map = Map::with_limit(1 << 20);
        let mut rings = 0;
        while map.ring_for(rings + 1, 0).is_some() {
            rings += 1;
        }
        assert_eq!(rings as usize, (1 << 20) / (FIRST_PLACES * 4));
        // None can grow, and each still knows its newest.
        let ring = filled(&Map::with_limit(FIRST_PLACES * 4), 1, 0, 1);
        for node in 1..10_000 {
            ring.put(&map, node, id_of(1, node));
        }
        let oldest = 10_000 - FIRST_PLACES as u64;
        assert_eq!(ring.get(1, oldest - 1), Found::Overwritten);
        assert!((oldest..10_000).all(|node| ring.get(1, node) == Found::Place(id_of(1, node))));
        assert_eq!(map.bytes.load(Ordering::Relaxed), 1 << 20);
    }

    #[test]
    fn ended_threads_make_room_the_oldest_first() {
        const COUNT: u64 = 5000;
        let map = Map::new();
        for thread in 1..=COUNT {
            filled(&map, thread, thread, 3).end(&map);
        }
        let kept = (LIMIT / 2 / (FIRST_PLACES * 4)) as u64;
        assert_eq!(map.bytes.load(Ordering::Relaxed), LIMIT / 2);
        for thread in 1..=COUNT {
            for node in thread..thread + 3 {
                let expected = match thread > COUNT - kept {
                    true => Found::Place(id_of(thread, node)),
                    false => Found::Overwritten,
                };
                assert_eq!(map.get(thread, node), expected, "thread {thread}");
            }
        }
        // What went to another thread is not had back.
        assert!(map.ring_for(1, 100).is_none());
        // A thread that lives on can grow, and keeps its ring.
        let lives = filled(&map, COUNT + 1, 0, 100_000);
        for thread in COUNT + 2..=2 * COUNT {
            filled(&map, thread, 7, 1).end(&map);
        }
        assert!(
            (0..100_000)
                .all(|node| lives.get(COUNT + 1, node) == Found::Place(id_of(COUNT + 1, node)))
        );
    }

    #[test]
    fn a_thread_that_goes_on_after_its_end_has_its_ring_again() {
        let map = Map::with_limit(FIRST_PLACES * 4);
        filled(&map, 1, 0, 3).end(&map);
        filled(&map, 1, 3, 3);
        assert!((0..6).all(|node| map.get(1, node) == Found::Place(id_of(1, node))));
        assert!(map.ring_for(2, 0).is_none(), "it lives");
        assert!(map.ring_for(1, 6).is_none(), "it has it already");
        // SAFETY: the ring is never given back.
        unsafe { &*map.newest.load(Ordering::Relaxed) }.end(&map);
        filled(&map, 2, 0, 1);
        assert_eq!(map.get(1, 0), Found::Overwritten);
        assert_eq!(map.get(2, 0), Found::Place(id_of(2, 0)));
    }

    #[test]
    fn readers_never_get_the_next_threads_place() {
        const THREADS: u64 = 20_000;
        let map: &'static Map = Box::leak(Box::new(Map::with_limit(FIRST_PLACES * 4 * 2)));
        let newest = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for back in 0..2 {
                let newest = &newest;
                scope.spawn(move || {
                    let mut at = 0;
                    while at < THREADS {
                        at = newest.load(Ordering::Acquire);
                        let thread = at.saturating_sub(back);
                        for node in 0..3 {
                            if let Found::Place(id) = map.get(thread, node) {
                                assert_eq!(id, id_of(thread, node), "node {node} of {thread}");
                            }
                        }
                    }
                });
            }
            for thread in 1..=THREADS {
                filled(map, thread, 0, 3).end(map);
                newest.store(thread, Ordering::Release);
            }
        });
    }

    #[test]
    fn a_thread_has_one_ring() {
        let map = Map::new();
        assert!(map.ring_for(2, 0).is_some() && map.ring_for(2, 0).is_none());
        let beyond = (CHUNK * CHUNK) as u64;
        assert!(map.ring_for(beyond, 0).is_none());
        assert!(map.ring_for(beyond - 1, 0).is_some());
    }

    #[test]
    fn readers_never_get_another_nodes_place() {
        let map: &'static Map = Box::leak(Box::new(Map::with_limit(FIRST_PLACES * 4 * 6)));
        let ring = map.ring_for(9, 0).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for reader in 0..2u64 {
                let done = &done;
                scope.spawn(move || {
                    let mut seen = 0u64;
                    while !done.load(Ordering::Relaxed) {
                        let next = ring.next.load(Ordering::Acquire);
                        // Near the edge at which places are written over.
                        for back in 1..40 {
                            let node = next
                                .saturating_sub(FIRST_PLACES as u64 * (1 + 3 * reader) + 20 - back);
                            match map.get(9, node) {
                                Found::Place(id) => {
                                    assert!(id == id_of(9, node), "{node}");
                                    seen += 1;
                                }
                                Found::Overwritten | Found::Unknown => {}
                                Found::Before => panic!("{node}"),
                            }
                        }
                    }
                    assert!(seen > 0 || next_is_small(ring));
                });
            }
            for node in 0..2_000_000 {
                ring.put(map, node, id_of(9, node));
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    /// Whether a reader may have come too late to see anything.
    fn next_is_small(ring: &Ring) -> bool {
        ring.next.load(Ordering::Relaxed) <= FIRST_PLACES as u64
    }
}
