//! The algorithms that a collective connects, if connections are made at their first use.

use crate::setup::{Level, Setup};

/// A collective, as far as it decides the algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// `ncclAllReduce`.
    AllReduce,
    /// `ncclAllGather`, `ncclReduceScatter`.
    Gather,
    /// `ncclBroadcast`, `ncclReduce`: only rings.
    Rooted,
}

/// A set of algorithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Algorithms {
    /// Rings.
    pub ring: bool,
    /// Trees.
    pub tree: bool,
    /// NVLS.
    pub nvls: bool,
}

/// All-reductions of up to this size use trees. Assumed: NCCL decides by the bandwidth and latency
/// that it expects.
const SMALL: u64 = 1 << 20;

impl Setup {
    /// The algorithms that a communicator connects at its start.
    pub fn all_algorithms(&self) -> Algorithms {
        Algorithms {
            ring: self.world > 1,
            tree: self.world > 2,
            nvls: self.has_nvls(),
        }
    }

    /// The algorithms that a collective of `bytes` connects. Low: rings. Likely: trees for small
    /// all-reductions, NVLS for others if available, else rings. High: every algorithm that the
    /// collective may use.
    pub fn algorithms(&self, collective: Collective, bytes: u64) -> Algorithms {
        let all = self.all_algorithms();
        let nvls = all.nvls && (collective == Collective::AllReduce || self.nodes() == 1);
        let ring = Algorithms {
            ring: all.ring,
            ..Algorithms::default()
        };
        match (collective, self.level) {
            (Collective::Rooted, _) | (_, Level::Low) => ring,
            (Collective::AllReduce, Level::High) => all,
            (Collective::Gather, Level::High) => Algorithms { nvls, ..ring },
            (Collective::AllReduce, Level::Likely) if all.tree && bytes <= SMALL => Algorithms {
                tree: true,
                ..Algorithms::default()
            },
            (_, Level::Likely) if nvls => Algorithms {
                nvls: true,
                ..Algorithms::default()
            },
            _ => ring,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;

    fn of(setup: &Setup, collective: Collective, bytes: u64) -> (bool, bool, bool) {
        let Algorithms { ring, tree, nvls } = setup.algorithms(collective, bytes);
        (ring, tree, nvls)
    }

    #[test]
    fn a_small_all_reduction_goes_by_trees_a_large_one_by_nvls_or_rings() {
        let hopper = Setup::new(Version::two(30, 7), 8, 8, 90, true);
        let ampere = Setup::new(Version::two(30, 7), 8, 8, 80, true);
        let (small, large) = (4, 64 << 20);
        assert_eq!(
            of(&hopper, Collective::AllReduce, small),
            (false, true, false)
        );
        assert_eq!(
            of(&hopper, Collective::AllReduce, large),
            (false, false, true)
        );
        assert_eq!(
            of(&ampere, Collective::AllReduce, large),
            (true, false, false)
        );
        assert_eq!(of(&hopper, Collective::Gather, large), (false, false, true));
        assert_eq!(of(&hopper, Collective::Rooted, large), (true, false, false));
    }

    #[test]
    fn the_ends_of_the_range_are_rings_and_everything() {
        let mut hopper = Setup::new(Version::two(30, 7), 8, 8, 90, true);
        hopper.level = Level::Low;
        assert_eq!(of(&hopper, Collective::AllReduce, 4), (true, false, false));
        hopper.level = Level::High;
        assert_eq!(of(&hopper, Collective::AllReduce, 4), (true, true, true));
        assert_eq!(of(&hopper, Collective::Gather, 4), (true, false, true));
    }

    #[test]
    fn one_rank_connects_nothing_and_two_have_no_tree() {
        let one = Setup::new(Version::two(30, 7), 1, 1, 90, true);
        assert_eq!(of(&one, Collective::AllReduce, 4), (false, false, false));
        let two = Setup::new(Version::two(30, 7), 2, 2, 90, true);
        assert_eq!(of(&two, Collective::AllReduce, 4), (true, false, false));
    }
}
