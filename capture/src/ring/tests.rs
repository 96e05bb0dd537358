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
    let zero = AtomicU64::new(0);
    Ring::new(&zero, &zero, &slots, Checks::new(1)).touch();
    let words = slots.iter().flat_map(|slot| &slot.0);
    for (place, found) in words.enumerate() {
        assert_eq!(found.load(Ordering::Relaxed), word(place));
    }
}
