//! The number of channels of a communicator.

use crate::setup::Setup;

/// Operations of send and receive that one round takes (`NCCL_MAX_DEV_WORK_P2P_PER_BATCH`).
const PEERS_PER_BATCH: u64 = 8;

impl Setup {
    /// Channels of collectives ("N coll channels" in NCCL's log).
    ///
    /// NCCL searches the machine's links for rings and doubles the result, which no formula
    /// reproduces. Seen in public logs: 24 on eight H200, 16 on eight H800, two A800 and three
    /// nodes of H100, 8 on two nodes of H20 and of H100, 2 on a desktop (docs/nccl.md). With one
    /// rank there are no links, so the search ends at the greatest number.
    pub fn channels(&self) -> u64 {
        let most = self.version.most_channels();
        let found = self.channels.unwrap_or_else(|| {
            if self.world == 1 {
                return self.level.of(32, most, most);
            }
            match (self.nvswitch, self.nodes()) {
                (true, 1) => self.level.of(16, 24, 32),
                (true, _) => self.level.of(8, 16, 32),
                (false, _) => self.level.of(1, 2, 4),
            }
        });
        // The upper limit first, then the lower one, as in NCCL.
        let limited = found.min(self.limits.most.unwrap_or(most)).max(1);
        limited.max(self.limits.least.unwrap_or(1)).min(most)
    }

    /// Channels of send and receive ("N p2p channels").
    pub fn p2p_channels(&self) -> u64 {
        let most = self.limits.most_p2p.unwrap_or(u64::MAX);
        let least = self.limits.least_p2p.unwrap_or(1);
        let channels = self.channels().min(most).max(least).max(1);
        channels
            .min(self.version.most_channels())
            .next_power_of_two()
    }

    /// The number of channels for each peer ("N p2p channels per peer").
    ///
    /// Twice the links to the peer (18 from compute capability 9.0 on, 12 before), 2 over PCIe and
    /// over the network. The least of all peers counts, as a power of two.
    pub fn channels_per_peer(&self) -> u64 {
        let channels = self.p2p_channels();
        if let Some(set) = self.limits.per_peer {
            return set.max(1).next_power_of_two().min(channels);
        }
        if self.nodes() == 1 {
            let links: u64 = match (self.nvswitch, self.capability >= 90) {
                (true, true) => 2 * 18,
                (true, false) => 2 * 12,
                (false, _) => 2,
            };
            return links.next_power_of_two().min(channels);
        }
        let mut per_peer = 2;
        while per_peer > 1 && per_peer * self.world.div_ceil(PEERS_PER_BATCH) > channels {
            per_peer /= 2;
        }
        per_peer
    }
}

#[cfg(test)]
mod tests {
    use crate::{Level, Setup, Version};

    const NOW: Version = Version::two(30, 7);

    fn on_node(world: u64, local: u64) -> Setup {
        Setup::new(NOW, world, local, 90, true)
    }

    #[test]
    fn a_node_of_eight_has_24_channels_and_32_for_send_and_receive() {
        let node = on_node(8, 8);
        assert_eq!(
            (
                node.channels(),
                node.p2p_channels(),
                node.channels_per_peer()
            ),
            (24, 32, 32)
        );
    }

    #[test]
    fn one_peer_on_another_node_leaves_two_channels_a_peer_or_one() {
        assert_eq!(on_node(16, 8).channels_per_peer(), 2);
        assert_eq!(on_node(64, 8).channels_per_peer(), 2);
        assert_eq!(on_node(1024, 8).channels_per_peer(), 1);
    }

    #[test]
    fn one_rank_alone_has_them_all() {
        assert_eq!(on_node(1, 1).channels(), 64);
        assert_eq!(
            Setup::new(Version::two(24, 3), 1, 1, 80, true).channels(),
            32
        );
    }

    #[test]
    fn a_program_limits_them() {
        let mut node = on_node(8, 8);
        node.limits.most = Some(4);
        assert_eq!((node.channels(), node.p2p_channels()), (4, 4));
        node.limits.least_p2p = Some(7);
        assert_eq!((node.channels(), node.p2p_channels()), (4, 8));
        node.limits.least = Some(200);
        assert_eq!(node.channels(), 64);
        node.limits.per_peer = Some(3);
        assert_eq!(node.channels_per_peer(), 4);
    }

    #[test]
    fn the_range_is_in_order() {
        for (world, local, nvswitch) in [(1, 1, true), (8, 8, true), (64, 8, true), (2, 2, false)] {
            let of = |level| {
                let mut setup = Setup::new(NOW, world, local, 90, nvswitch);
                setup.level = level;
                setup.channels()
            };
            let [low, likely, high] = [Level::Low, Level::Likely, Level::High].map(of);
            assert!(low <= likely && likely <= high, "{world} {local}");
        }
    }
}
