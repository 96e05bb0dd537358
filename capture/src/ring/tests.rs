use super::*;

#[test]
fn touching_changes_nothing() {
    let word = |place: usize| {
        if place.is_multiple_of(3) {
            0
        } else {
            place as u64
        }
    };
    let slots: Vec<Slot> = (0..4 * PAGE_SLOTS)
        .map(|slot| Slot(core::array::from_fn(|n| AtomicU64::new(word(8 * slot + n)))))
        .collect();
    let indexes = Indexes::new(slots.len() as u64, ALL);
    Ring::new(&indexes, &slots, Checks::new(1)).touch();
    let words = slots.iter().flat_map(|slot| &slot.0);
    for (place, found) in words.enumerate() {
        assert_eq!(found.load(Ordering::Relaxed), word(place));
    }
}

#[test]
fn slots_without_memory_are_not_reserved() {
    let slots: [Slot; 8] =
        core::array::from_fn(|_| Slot(core::array::from_fn(|_| AtomicU64::new(0))));
    let indexes = Indexes::new(8, 2);
    let ring = Ring::new(&indexes, &slots, Checks::new(1));
    assert_eq!(
        (ring.backed(), ring.reserve(2), ring.reserve(1)),
        (Some(2), Some(0), None)
    );
    // Free slots of the next lap are of no use before those that follow have memory.
    ring.release(2);
    assert_eq!(ring.reserve(1), None);
    ring.back(4);
    assert_eq!(
        (ring.reserve(3), ring.reserve(2), ring.has_space(1)),
        (None, Some(2), false)
    );
    ring.back(8);
    assert_eq!(
        (
            ring.backed(),
            ring.reserve(7),
            ring.reserve(6),
            ring.reserve(1)
        ),
        (None, None, Some(4), None)
    );
    ring.release(3);
    assert_eq!((ring.reserve(1), ring.reserve(1)), (Some(10), None));
}
