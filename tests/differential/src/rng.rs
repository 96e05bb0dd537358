//! Random numbers that depend only on the seed (xorshift64*, seeded through splitmix64).

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.number() >> 32) * end as u128) >> 32) as usize
    }

    /// A number of the range, its end excluded.
    pub fn within(&mut self, start: usize, end: usize) -> usize {
        start + self.below(end.saturating_sub(start))
    }

    /// True with a probability of `share` percent.
    pub fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// A random element of the list.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        list.get(self.below(list.len())).copied()
    }

    /// The index of an element that `wanted` accepts; the search starts at a random index.
    pub fn find<T>(&mut self, list: &[T], wanted: impl Fn(&T) -> bool) -> Option<usize> {
        let start = self.below(list.len());
        let places = (start..list.len()).chain(0..start);
        places
            .into_iter()
            .find(|place| list.get(*place).is_some_and(&wanted))
    }

    /// A size in bytes as programs request them: many small ones, few large ones, any last digits.
    pub fn bytes(&mut self) -> usize {
        let largest = match self.below(20) {
            0..6 => 4 << 10,
            6..11 => 256 << 10,
            11..14 => 2 << 20,
            14..18 => 8 << 20,
            18 => 48 << 20,
            _ => 160 << 20,
        };
        let bytes = 1 + self.below(largest);
        match self.below(3) {
            0 => bytes.next_multiple_of(512),
            1 => bytes.next_power_of_two(),
            _ => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_stream() {
        let numbers = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.number()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(5), numbers(5));
        assert_ne!(numbers(5), numbers(6));
    }

    #[test]
    fn numbers_stay_below() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[rng.below(7)] = true;
            assert!((1..=256 << 20).contains(&rng.bytes()));
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.find(&[1, 2, 3], |n| *n == 3), Some(2));
        assert_eq!(rng.find(&[1, 2, 3], |n| *n == 4), None);
    }
}
