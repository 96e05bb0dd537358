//! The blocks of one stack, in the order in which they came: how many, how large, how often larger.

use gpumem_capture::Seq;

/// What the blocks of one stack did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct History {
    pub allocations: u64,
    /// Blocks that a backward freed.
    pub by_backward: u64,
    /// Blocks that anything freed.
    pub freed: u64,
    pub first: Seq,
    pub newest: Seq,
    /// The largest request so far, and the newest one.
    pub largest: u64,
    pub last: u64,
    /// The largest one before that which was as large as any.
    pub before: u64,
    /// The largest size below the largest.
    pub below: u64,
    /// How many times a block was larger than all before, since one was smaller than the one before it; and the
    /// number of blocks since then.
    pub rises: u64,
    pub since: u64,
    /// The smallest and the largest of these rises.
    pub rise: (u64, u64),
    /// The threads that allocated, a bit for each.
    pub threads: u64,
}

impl History {
    pub(crate) fn came(&mut self, seq: Seq, bytes: u64) {
        match self.allocations {
            0 => self.first = seq,
            _ if bytes == self.last => {}
            _ if bytes > self.last => {
                let rise = bytes - self.last;
                self.rise = match self.rises {
                    0 => (rise, rise),
                    _ => (self.rise.0.min(rise), self.rise.1.max(rise)),
                };
                self.rises += 1;
            }
            _ => (self.rises, self.since) = (0, 0),
        }
        if bytes > self.largest {
            self.below = self.largest;
        }
        if bytes >= self.largest {
            self.before = self.largest;
        }
        self.since += 1;
        self.allocations += 1;
        self.newest = seq;
        self.last = bytes;
        self.largest = self.largest.max(bytes);
    }

    /// Whether the newest one is as large as any, and the only rise since a smaller one. At the end of many rises it must be
    /// more than twice as large as all before.
    pub(crate) fn is_outlier(&self) -> bool {
        /// As many rises in a row are growth, whatever their sizes.
        const MANY: u64 = 8;
        let jumped = self.rises >= MANY && self.last / 2 > self.below;
        self.last == self.largest && (self.rises == 1 || jumped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_before_is_of_all_requests() {
        let before = |sizes: &[u64]| {
            let mut of = History::default();
            let seqs = (1..).map(Seq);
            sizes
                .iter()
                .zip(seqs)
                .for_each(|(size, seq)| of.came(seq, *size));
            (of.rises, of.largest, of.before)
        };
        assert_eq!(before(&[10, 20, 100]).1, 100);
        assert_eq!(before(&[10, 20, 100]).2, 20);
        assert_eq!(before(&[49, 1, 49, 1, 49]), (1, 49, 49), "as large before");
    }

    #[test]
    fn a_jump_at_the_end_of_many_rises_is_an_outlier() {
        let is_outlier = |sizes: &[u64]| {
            let mut of = History::default();
            let seqs = (1..).map(Seq);
            let all = sizes.iter().zip(seqs);
            all.for_each(|(size, seq)| of.came(seq, *size));
            of.is_outlier()
        };
        let rises = [10, 11, 12, 13, 14, 15, 16, 17, 18];
        assert!(!is_outlier(&rises));
        assert!(is_outlier(&[&rises[..], &[90]].concat()));
        assert!(
            is_outlier(&[&rises[..], &[90, 90]].concat()),
            "of the next layer"
        );
        assert!(!is_outlier(&[&rises[..], &[30]].concat()));
        assert!(is_outlier(&[&rises[..], &[10, 19]].concat()));
        assert!(
            !is_outlier(&[10, 20, 60, 200]),
            "few rises may be of any size"
        );
    }
}
