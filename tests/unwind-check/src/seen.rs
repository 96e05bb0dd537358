//! A table that stores the first value of each key. Any thread can use it at any time: it has no lock
//! and does not allocate.

use core::sync::atomic::{AtomicU64, Ordering};

/// Number of entries, a power of two.
const PLACES: usize = 1 << 20;

/// A table of pairs. All zeros are an empty table.
pub(crate) struct Seen {
    places: [[AtomicU64; 2]; PLACES],
}

/// The table's state for a pair.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Known {
    New,
    Same,
    Other,
    /// The table has no room for the pair.
    Full,
}

impl Seen {
    /// Whether `key` was stored with `value`.
    pub(crate) fn note(&self, key: u64, value: u64) -> Known {
        let (key, value) = (key.max(1), value.max(1));
        let first = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
        for step in 0..64 {
            let place = (first as usize + step) & (PLACES - 1);
            let Some([at_key, at_value]) = self.places.get(place) else {
                break;
            };
            match at_key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    at_value.store(value, Ordering::Release);
                    return Known::New;
                }
                Err(other) if other != key => continue,
                Err(_) => {}
            }
            loop {
                match at_value.load(Ordering::Acquire) {
                    0 => core::hint::spin_loop(), // another thread is about to write it
                    found if found == value => return Known::Same,
                    _ => return Known::Other,
                }
            }
        }
        Known::Full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages;

    #[test]
    fn a_pair_is_known_from_its_second_time_on() {
        // SAFETY: all zeros are an empty table.
        let seen: &Seen = unsafe { pages::zeroed() }.unwrap();
        for key in 0..1000 {
            assert_eq!(seen.note(key * 7 + 1, key), Known::New);
        }
        assert_eq!(seen.note(8, 1), Known::Same);
        assert_eq!(seen.note(8, 2), Known::Other);
        assert_eq!(seen.note(2, 1), Known::New);
    }

    #[test]
    fn a_crowded_place_is_full() {
        // SAFETY: all zeros are an empty table.
        let seen: &Seen = unsafe { pages::zeroed() }.unwrap();
        // The multiplier's inverse, by Newton's method: all of its multiples below have the first
        // entry.
        let multiplier = 0x9e37_79b9_7f4a_7c15_u64;
        let better = |x: u64| x.wrapping_mul(2u64.wrapping_sub(multiplier.wrapping_mul(x)));
        let inverse = (0..6).fold(multiplier, |x, _| better(x));
        let keys = (1..=65).map(|n: u64| n.wrapping_mul(inverse));
        let known: Vec<_> = keys.map(|key| seen.note(key, 1)).collect();
        assert!(known[..64].iter().all(|known| *known == Known::New));
        assert_eq!(known[64], Known::Full);
    }
}
