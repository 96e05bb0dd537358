use core::sync::atomic::AtomicBool;

use super::super::thread_nodes::MOST_PLACES;
use super::*;

/// A value that identifies its node and thread.
fn id_of(thread: u64, node: u64) -> u32 {
    (node as u32).wrapping_mul(2_654_435_761) ^ (thread as u32) << 24 | 1
}

fn filled(map: &SequenceMap, thread: u64, first: u64, count: u64) -> &'static ThreadNodes {
    let ring = map.nodes_for(thread, first).unwrap();
    for node in first..first + count {
        map.put(ring, node, id_of(thread, node));
    }
    ring
}

#[test]
fn a_ring_grows_and_keeps_all_of_its_nodes() {
    let map = SequenceMap::new();
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
    let map = SequenceMap::new();
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
    let map = SequenceMap::new();
    let ring = filled(&map, 1, 0, 5000);
    map.put(ring, 7000, 7);
    assert_eq!(map.get(1, 4999), Found::Place(id_of(1, 4999)));
    assert!((5000..7000).all(|node| map.get(1, node) == Found::Place(0)));
    assert_eq!(map.get(1, 7000), Found::Place(7));
    // So many that no older node is left, in a ring that cannot grow that far.
    map.put(ring, 1 << 40, 9);
    assert_eq!(map.get(1, 7000), Found::Overwritten);
    assert_eq!(map.get(1, (1 << 40) - 1), Found::Place(0));
    assert_eq!(map.get(1, 1 << 40), Found::Place(9));
    // Numbers do not decrease.
    map.put(ring, 7000, 8);
    assert_eq!(map.get(1, 7000), Found::Overwritten);
}

#[test]
fn the_rings_of_ended_threads_stay() {
    let map: &'static SequenceMap = Box::leak(Box::new(SequenceMap::new()));
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
    let map = SequenceMap::with_limit(1 << 20);
    let mut rings = 0;
    while map.nodes_for(rings + 1, 0).is_some() {
        rings += 1;
    }
    assert_eq!(rings as usize, (1 << 20) / (FIRST_PLACES * 4));
    // No ring can grow, and each still has its newest nodes.
    let ring = filled(&SequenceMap::with_limit(FIRST_PLACES * 4), 1, 0, 1);
    for node in 1..10_000 {
        map.put(ring, node, id_of(1, node));
    }
    let oldest = 10_000 - FIRST_PLACES as u64;
    assert_eq!(ring.get(1, oldest - 1), Found::Overwritten);
    assert!((oldest..10_000).all(|node| ring.get(1, node) == Found::Place(id_of(1, node))));
    assert_eq!(map.budget.bytes(), 1 << 20);
}

#[test]
fn ended_threads_make_room_the_oldest_first() {
    const COUNT: u64 = 5000;
    let map = SequenceMap::new();
    for thread in 1..=COUNT {
        map.end(filled(&map, thread, thread, 3));
    }
    let kept = (LIMIT / 2 / (FIRST_PLACES * 4)) as u64;
    assert_eq!(map.budget.bytes(), LIMIT / 2);
    for thread in 1..=COUNT {
        for node in thread..thread + 3 {
            let expected = match thread > COUNT - kept {
                true => Found::Place(id_of(thread, node)),
                false => Found::Overwritten,
            };
            assert_eq!(map.get(thread, node), expected, "thread {thread}");
        }
    }
    // A ring that was passed on is not returned.
    assert!(map.nodes_for(1, 100).is_none());
    // A live thread's ring can grow, and stays with it.
    let lives = filled(&map, COUNT + 1, 0, 100_000);
    for thread in COUNT + 2..=2 * COUNT {
        map.end(filled(&map, thread, 7, 1));
    }
    assert!(
        (0..100_000).all(|node| lives.get(COUNT + 1, node) == Found::Place(id_of(COUNT + 1, node)))
    );
}

#[test]
fn a_thread_that_goes_on_after_its_end_has_its_ring_again() {
    let map = SequenceMap::with_limit(FIRST_PLACES * 4);
    map.end(filled(&map, 1, 0, 3));
    filled(&map, 1, 3, 3);
    assert!((0..6).all(|node| map.get(1, node) == Found::Place(id_of(1, node))));
    assert!(map.nodes_for(2, 0).is_none(), "it lives");
    assert!(map.nodes_for(1, 6).is_none(), "it has it already");
    // SAFETY: the ring is never freed.
    map.end(unsafe { &*map.newest.load(Ordering::Relaxed) });
    filled(&map, 2, 0, 1);
    assert_eq!(map.get(1, 0), Found::Overwritten);
    assert_eq!(map.get(2, 0), Found::Place(id_of(2, 0)));
}

#[test]
fn readers_never_get_the_next_threads_place() {
    const THREADS: u64 = 20_000;
    let map: &'static SequenceMap =
        Box::leak(Box::new(SequenceMap::with_limit(FIRST_PLACES * 4 * 2)));
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
            map.end(filled(map, thread, 0, 3));
            newest.store(thread, Ordering::Release);
        }
    });
}

#[test]
fn a_thread_has_one_ring() {
    let map = SequenceMap::new();
    assert!(map.nodes_for(2, 0).is_some() && map.nodes_for(2, 0).is_none());
    let beyond = (CHUNK * CHUNK) as u64;
    assert!(map.nodes_for(beyond, 0).is_none());
    assert!(map.nodes_for(beyond - 1, 0).is_some());
}

#[test]
fn readers_never_get_another_nodes_place() {
    let map: &'static SequenceMap =
        Box::leak(Box::new(SequenceMap::with_limit(FIRST_PLACES * 4 * 6)));
    let ring = map.nodes_for(9, 0).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2u64 {
            let done = &done;
            scope.spawn(move || {
                let mut seen = 0u64;
                while !done.load(Ordering::Relaxed) {
                    let next = ring.next();
                    // Near the edge at which slots are overwritten.
                    for back in 1..40 {
                        let node =
                            next.saturating_sub(FIRST_PLACES as u64 * (1 + 3 * reader) + 20 - back);
                        // A node is looked up once it has been created.
                        if node >= next {
                            continue;
                        }
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
            map.put(ring, node, id_of(9, node));
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// Whether a reader may have come too late to find anything.
fn next_is_small(ring: &ThreadNodes) -> bool {
    ring.next() <= FIRST_PLACES as u64
}
