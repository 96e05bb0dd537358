//! Blocks of a communicator that do not belong to connections.

use crate::setup::Setup;
use crate::{PAGE, STEPS, pages};

/// `ncclDevChannelPeer`: two connections each way.
const PEER_BYTES: u64 = 640;

impl Setup {
    fn small(&self, bytes: u64) -> u64 {
        if self.cumem { pages(bytes) } else { bytes }
    }

    /// The blocks that a communicator allocates at its start: for each channel its peers, their
    /// addresses, and the ring's ranks; two or three blocks for the communicator. With NVLS, also a
    /// block for each of its channels and, from 2.22 on, its credits.
    pub fn structures(&self) -> Vec<u64> {
        let mut blocks = Vec::new();
        for _ in 0..self.channels().max(self.p2p_channels()) {
            if !self.shares {
                blocks.push(self.small(self.world * PEER_BYTES));
            }
            blocks.push(self.small((self.world + 1 + self.local) * 8));
            blocks.push(self.small(self.world * 4));
        }
        for _ in 0..self.level.of(2, 3, 3) {
            blocks.push(self.small(4096));
        }
        if self.has_nvls() && !self.shares {
            for _ in 0..16 {
                blocks.push(self.small(self.local * PEER_BYTES));
            }
            if self.version.from(22) {
                blocks.push(PAGE);
            }
        }
        blocks
    }

    /// Whether collectives may use NVLS: it needs an NVSwitch with multicast, and more than two
    /// ranks on it.
    pub fn has_nvls(&self) -> bool {
        self.nvls
            && self.nvswitch
            && self.capability >= 90
            && self.local > 2
            && self.version.from(18)
    }

    /// Blocks of the NVLS buffer, for each rank on the node.
    pub fn nvls(&self) -> Vec<u64> {
        if !self.has_nvls() || self.shares {
            return Vec::new();
        }
        let chunk = self.nvls_chunk * STEPS;
        let channels = |of_version| self.limits.nvls.unwrap_or(of_version);
        let rank = match self.version.minor {
            18 | 19 => channels(16) * 2 * (self.buffers.simple + PAGE),
            20 => channels(self.channels()) * 2 * (self.buffers.simple + PAGE),
            21 => channels(self.channels()) * 2 * (chunk + PAGE),
            minor => {
                let blackwell = if minor < 27 || self.nodes() > 1 {
                    32
                } else {
                    24
                };
                let of_version = if minor >= 25 && self.capability >= 100 {
                    blackwell
                } else {
                    16
                };
                channels(of_version) * 2 * chunk
            }
        };
        vec![pages(rank * self.local)]
    }

    /// The code of NCCL's kernels, once for each process and device. Fitted to one published figure
    /// (nccl#1685); unknown for other versions and cards.
    pub fn kernels(&self) -> u64 {
        self.level.of(200, 240, 280) << 20
    }

    /// The table of addresses that the first registered window needs.
    pub fn windows(&self) -> u64 {
        if self.cumem { PAGE } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use crate::{PAGE, Setup, Version};

    const M: u64 = 1 << 20;

    fn node(minor: u32, capability: u32) -> Setup {
        Setup::new(Version::two(minor, 0), 8, 8, capability, true)
    }

    #[test]
    fn structures_take_6_m_a_channel_with_cumem_and_next_to_nothing_without() {
        let mut eight = node(30, 80);
        assert_eq!(eight.structures().iter().sum::<u64>(), 198 * M);
        eight.cumem = false;
        assert!(eight.structures().iter().sum::<u64>() < M);
        let many = Setup::new(Version::two(30, 7), 10_000, 8, 80, true);
        let channels = many.channels();
        assert_eq!(
            many.structures().iter().sum::<u64>(),
            channels * 12 * M + 6 * M
        );
    }

    #[test]
    fn structures_that_are_shared_leave_out_the_peers() {
        let mut child = node(30, 80);
        child.shares = true;
        assert_eq!(child.structures().iter().sum::<u64>(), 32 * 4 * M + 6 * M);
        assert!(child.nvls().is_empty());
    }

    #[test]
    fn nvls_by_version() {
        let of = |minor, capability, channels| {
            let mut setup = node(minor, capability);
            setup.channels = Some(channels);
            setup.nvls().iter().sum::<u64>() / M
        };
        assert_eq!([18, 19].map(|v| of(v, 90, 24)), [1536, 1536]);
        assert_eq!([20, 21].map(|v| of(v, 90, 24)), [2304, 1152]);
        assert_eq!([22, 24, 30].map(|v| of(v, 90, 24)), [256, 256, 256]);
        assert_eq!(
            [24, 25, 26, 27, 30].map(|v| of(v, 100, 24)),
            [256, 512, 512, 384, 384]
        );
        let credits = node(30, 90).structures();
        assert_eq!(credits.last(), Some(&PAGE));
    }

    #[test]
    fn nvls_needs_a_switch_three_ranks_and_compute_capability_9() {
        let with = |change: fn(&mut Setup)| {
            let mut setup = node(30, 90);
            change(&mut setup);
            setup.has_nvls()
        };
        assert!(with(|_| ()));
        assert!(!with(|s| s.nvls = false));
        assert!(!with(|s| s.nvswitch = false));
        assert!(!with(|s| s.capability = 80));
        assert!(!with(|s| s.local = 2));
        assert!(!with(|s| s.version = Version::two(17, 1)));
    }
}
