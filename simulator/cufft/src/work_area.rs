//! The size of a plan's work area. A model: cuFFT's own sizes depend on its version and the card.
//!
//! NVIDIA's documentation ("cuFFT Estimated Size of Work Area") states that powers of two need
//! least, that lengths with other factors than 2, 3, 5 and 7 need more, and that large primes may
//! need eight times the work area of a similar power of two. So a transform of complex elements
//! needs, in multiples of its size in bytes:
//!
//! | lengths | low | likely | high |
//! |---|---|---|---|
//! | powers of two | 0 | 1 | 1 |
//! | 2, 3, 5, 7 | 1 | 1 | 2 |
//! | others | 1 | padded to the power of two from 2n − 1 on (Bluestein) | 8 |
//!
//! Zero for powers of two and one for the rest are what users report of one-dimensional plans; the
//! factor 8 is from the documentation. Nothing in this table has been measured.

use gpumem_sim_client::level::Level;

/// The shape of a transform.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The lengths, the fastest last.
    pub lengths: Vec<u64>,
    /// Transforms in a batch.
    pub batch: u64,
    /// Bytes of a complex element.
    pub element_bytes: u64,
    /// Whether one side is real: then the last length n counts as n / 2 + 1.
    pub real: bool,
}

/// The factors of a length, which decide the algorithm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Factors {
    Two,
    Small,
    Other,
}

fn factors(mut length: u64) -> Factors {
    if length.is_power_of_two() {
        return Factors::Two;
    }
    for factor in [2, 3, 5, 7] {
        while length > 0 && length.is_multiple_of(factor) {
            length /= factor;
        }
    }
    if length == 1 {
        Factors::Small
    } else {
        Factors::Other
    }
}

/// The smallest power of two that holds a circular convolution of this length.
fn padded(length: u64) -> u64 {
    match factors(length) {
        Factors::Other => (length * 2 - 1).next_power_of_two(),
        _ => length,
    }
}

/// Bytes of the work area; `None` if they do not fit in 64 bits.
pub fn bytes(shape: &Shape, level: Level) -> Option<u64> {
    let worst = shape.lengths.iter().map(|n| factors(*n)).max()?;
    let elements = |length: fn(u64) -> u64| {
        let last = shape.lengths.len() - 1;
        let mut sizes = shape.lengths.iter().enumerate().map(|(place, n)| {
            let n = length(*n);
            if shape.real && place == last {
                n / 2 + 1
            } else {
                n
            }
        });
        sizes.try_fold(shape.batch, u64::checked_mul)
    };
    let own = elements(|n| n)?.checked_mul(shape.element_bytes)?;
    match (worst, level) {
        (Factors::Two, Level::Low) => Some(0),
        (Factors::Two, _) | (Factors::Small, Level::Low | Level::Likely) => Some(own),
        (Factors::Small, Level::High) => own.checked_mul(2),
        (Factors::Other, Level::Low) => Some(own),
        (Factors::Other, Level::Likely) => elements(padded)?.checked_mul(shape.element_bytes),
        (Factors::Other, Level::High) => own.checked_mul(8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lengths: &[u64], real: bool) -> [Option<u64>; 3] {
        let shape = Shape {
            lengths: lengths.to_vec(),
            batch: 3,
            element_bytes: 8,
            real,
        };
        [Level::Low, Level::Likely, Level::High].map(|level| bytes(&shape, level))
    }

    #[test]
    fn powers_of_two_need_least() {
        let own = 3 * 1024 * 8;
        assert_eq!(of(&[1024], false), [0, own, own].map(Some));
        assert_eq!(of(&[32, 32], false), [0, own, own].map(Some));
        assert_eq!(
            of(&[1024], true)[1],
            Some(3 * 513 * 8),
            "half, and one, with a real side"
        );
    }

    #[test]
    fn small_factors_need_their_own_bytes() {
        let own = 3 * 1000 * 8;
        assert_eq!(of(&[1000], false), [own, own, 2 * own].map(Some));
    }

    #[test]
    fn large_primes_need_up_to_eight_times() {
        let own = 3 * 1009 * 8;
        assert_eq!(of(&[1009], false), [own, 3 * 2048 * 8, 8 * own].map(Some));
        let both = 3 * 1009 * 1024 * 8;
        let padded = 3 * 2048 * 1024 * 8;
        assert_eq!(of(&[1009, 1024], false), [both, padded, 8 * both].map(Some));
    }

    #[test]
    fn the_range_is_in_order_and_never_wraps_around() {
        for n in 1..3000 {
            let [low, likely, high] = of(&[n], false);
            assert!(low <= likely && likely <= high, "{n}");
        }
        assert_eq!(of(&[u64::MAX / 2, 3], false)[1], None);
    }
}
