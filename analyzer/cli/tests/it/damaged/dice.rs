//! Damage: captures with a few bytes changed or cut off. The same seed gives the same damage.

/// The head, with rows and facts of 32 bytes.
const HEAD: usize = 24576;
const ROW: usize = 32;

/// A generator of random numbers (SplitMix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) as usize % end.max(1)
    }

    /// The capture with 1 to 8 bytes changed. A third of the captures are changed anywhere; others where something is:
    /// in one row or fact of the head, or at any bytes that are not zero.
    pub fn changed(&mut self, capture: &[u8]) -> Vec<u8> {
        let mut out = capture.to_vec();
        let is_used = |row: &usize| out[*row..].iter().take(ROW).any(|byte| *byte != 0);
        let places: Vec<usize> = match self.below(3) {
            0 => (0..out.len()).collect(),
            1 => {
                let rows = (0..HEAD.min(out.len())).step_by(ROW);
                let rows: Vec<usize> = rows.filter(is_used).collect();
                let row = rows[self.below(rows.len())];
                (row..out.len().min(row + ROW)).collect()
            }
            _ => (0..out.len()).filter(|at| out[*at] != 0).collect(),
        };
        for _ in 0..=self.below(8) {
            out[places[self.below(places.len())]] ^= 1 + self.below(255) as u8;
        }
        out
    }

    /// The capture cut off below its own length.
    pub fn cut(&mut self, capture: &[u8]) -> Vec<u8> {
        capture[..self.below(capture.len())].to_vec()
    }
}
