//! Connections to a rank's neighbours in rings and trees, and their buffers.
//!
//! A connection is one direction of one channel to one peer; ring and tree share it. Over NVLink or
//! PCIe the receiver allocates the buffers (with an NVSwitch at compute capability 8.0 the receiver
//! reads the sender's simple buffer); over the network both sides allocate some.

use crate::pages;
use crate::setup::{Buffers, Level, Setup};

/// `ncclSendMem` and `ncclRecvMem`: heads, tails and flags of a connection.
const CONTROL: u64 = 4096;

/// One direction of one channel, to the next or the previous rank of its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// To the next rank, in every ring.
    SendNext,
    /// From the previous rank, in every ring.
    ReceivePrevious,
    /// Back from the next rank, in a tree.
    ReceiveNext,
    /// Back to the previous rank, in a tree.
    SendPrevious,
}

impl Way {
    fn sends(self) -> bool {
        matches!(self, Self::SendNext | Self::SendPrevious)
    }
}

/// A connection: its channel, and its way.
pub type Connection = (u64, Way);

impl Setup {
    /// The connections of the rings.
    pub fn ring(&self) -> Vec<Connection> {
        if self.world < 2 {
            return Vec::new();
        }
        let ways = [Way::SendNext, Way::ReceivePrevious];
        self.each_channel(|_| ways.to_vec())
    }

    /// The connections of the trees: both directions to one neighbour at an end of the node's
    /// chain, or to both neighbours inside it (the range's high end).
    pub fn tree(&self) -> Vec<Connection> {
        if self.world < 3 {
            return Vec::new();
        }
        self.each_channel(|channel| match self.level {
            Level::High => vec![
                Way::SendNext,
                Way::ReceiveNext,
                Way::SendPrevious,
                Way::ReceivePrevious,
            ],
            // Chains end at different ranks on different channels.
            _ if channel % 2 == 0 => vec![Way::SendNext, Way::ReceiveNext],
            _ => vec![Way::SendPrevious, Way::ReceivePrevious],
        })
    }

    fn each_channel(&self, ways: impl Fn(u64) -> Vec<Way>) -> Vec<Connection> {
        let channels = 0..self.channels();
        let all = channels.flat_map(|c| ways(c).into_iter().map(move |way| (c, way)));
        all.collect()
    }

    /// Bytes of a connection's block; 0 if it has no device memory.
    pub fn bytes_of(&self, connection: Connection) -> u64 {
        let (_, way) = connection;
        if self.is_network(connection) {
            return self.network_bytes(way.sends());
        }
        self.peer_bytes(way.sends())
    }

    /// Whether a connection uses the network. In a ring that leaves the node, one rank sends over
    /// the network and another receives. The model's rank is one of them on every channel, which is
    /// the most, or on its share of the channels at the range's low end.
    pub fn is_network(&self, (channel, way): Connection) -> bool {
        if self.nodes() == 1 || !matches!(way, Way::SendNext | Way::ReceivePrevious) {
            return false;
        }
        if self.local == 1 {
            return true;
        }
        let leaves = match self.level {
            Level::Low => channel < self.channels().div_ceil(self.local),
            _ => true,
        };
        leaves && way.sends() == channel.is_multiple_of(2)
    }

    /// One side of a connection within the node.
    pub(crate) fn peer_bytes(&self, sends: bool) -> u64 {
        if !self.peers {
            // Data goes through host memory.
            return 0;
        }
        let Buffers { ll, ll128, simple } = self.buffers;
        let read_by_the_receiver = self.capability == 80 && self.nvswitch;
        pages(match (sends, read_by_the_receiver) {
            (true, true) => CONTROL + simple,
            (true, false) => CONTROL,
            (false, true) => CONTROL + ll + ll128,
            (false, false) => CONTROL + ll + ll128 + simple,
        })
    }

    /// One side of a connection over the network.
    fn network_bytes(&self, sends: bool) -> u64 {
        if !self.direct {
            return 0;
        }
        let Buffers { ll, ll128, simple } = self.buffers;
        let bytes = if sends {
            ll128 + simple
        } else {
            ll + ll128 + simple
        };
        if self.cumem { pages(bytes) } else { bytes }
    }

    /// Host memory of one connection over the network, where network cards do not access device
    /// memory.
    pub fn network_host_bytes(&self) -> u64 {
        let Buffers { ll, ll128, simple } = self.buffers;
        ll + ll128 + simple + 2 * CONTROL
    }

    /// Blocks of a connection for sending to a peer on this node or elsewhere.
    ///
    /// Send and receive never share a connection with collectives. Over the network they use a pool
    /// ([`Setup::network_pool`]).
    pub fn send(&self, on_this_node: bool) -> Vec<u64> {
        self.send_or_receive(on_this_node, true)
    }

    /// Blocks of a connection for receiving.
    pub fn receive(&self, on_this_node: bool) -> Vec<u64> {
        self.send_or_receive(on_this_node, false)
    }

    fn send_or_receive(&self, on_this_node: bool, sends: bool) -> Vec<u64> {
        let bytes = self.peer_bytes(sends);
        if !on_this_node || bytes == 0 {
            return Vec::new();
        }
        vec![bytes; self.channels_per_peer() as usize]
    }

    /// The pool of one direction of send and receive over the network.
    fn pool(&self) -> u64 {
        /// `NCCL_SHARED_STEPS`.
        const STEPS: u64 = 16;
        let chunk = match (self.nodes(), self.nvswitch || self.world == 1) {
            (1, true) => self.chunks.nvlink,
            (1, false) => self.chunks.pci,
            _ => self.chunks.network,
        };
        // A piece is at most as large as a step of a buffer.
        self.p2p_channels() * STEPS * chunk.min(self.buffers.simple / crate::STEPS)
    }

    /// The pool for sending. A communicator that connects at its start allocates it then, even
    /// without a network and with one rank (nccl#2363).
    pub fn pool_at_start(&self) -> Vec<u64> {
        if self.late || self.shares {
            return Vec::new();
        }
        vec![self.pool()]
    }

    /// The pools that the first send or receive over the network allocates, without the one
    /// allocated at the start.
    pub fn network_pool(&self) -> Vec<u64> {
        if !self.direct || self.nodes() == 1 {
            return Vec::new();
        }
        vec![self.pool(); if self.late { 2 } else { 1 }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PAGE, Version};
    use std::collections::BTreeSet;

    const M: u64 = 1 << 20;

    fn total(setup: &Setup, connections: &[Vec<Connection>]) -> u64 {
        let once: BTreeSet<_> = connections.iter().flatten().copied().collect();
        once.into_iter().map(|c| setup.bytes_of(c)).sum()
    }

    #[test]
    fn a_ring_on_a_node_takes_12_m_a_channel_written_or_read() {
        for capability in [80, 90] {
            let node = Setup::new(Version::two(30, 7), 8, 8, capability, true);
            assert_eq!(total(&node, &[node.ring()]), 24 * 12 * M);
        }
    }

    #[test]
    fn a_tree_adds_6_m_a_channel_to_a_ring_and_12_inside_the_chain() {
        let mut node = Setup::new(Version::two(30, 7), 8, 8, 90, true);
        assert_eq!(total(&node, &[node.tree()]), 24 * 12 * M, "alone");
        assert_eq!(total(&node, &[node.ring(), node.tree()]), 24 * 18 * M);
        node.level = Level::High;
        assert_eq!(total(&node, &[node.ring(), node.tree()]), 32 * 24 * M);
    }

    #[test]
    fn a_ring_over_the_network_takes_20_m_a_channel() {
        let mut alone = Setup::new(Version::two(30, 7), 8, 1, 90, true);
        assert_eq!(total(&alone, &[alone.ring()]), 16 * 20 * M);
        alone.direct = false;
        assert_eq!(total(&alone, &[alone.ring()]), 0);
        let mut nodes = Setup::new(Version::two(30, 7), 64, 8, 90, true);
        assert_eq!(total(&nodes, &[nodes.ring()]), 16 * 16 * M);
        nodes.level = Level::Low;
        assert_eq!(total(&nodes, &[nodes.ring()]), 8 * 12 * M + 8 * M);
    }

    #[test]
    fn nothing_is_connected_by_one_rank_or_through_the_host() {
        let one = Setup::new(Version::two(30, 7), 1, 1, 90, true);
        assert!(one.ring().is_empty() && one.tree().is_empty());
        let mut desktop = Setup::new(Version::two(30, 7), 2, 2, 89, false);
        assert_eq!(total(&desktop, &[desktop.ring()]), 2 * 12 * M);
        desktop.peers = false;
        assert_eq!(total(&desktop, &[desktop.ring()]), 0);
    }

    #[test]
    fn buffers_have_the_sizes_that_a_program_sets() {
        let mut node = Setup::new(Version::two(30, 7), 2, 2, 90, true);
        node.buffers.simple = 16 * M;
        assert_eq!(node.peer_bytes(false), 22 * M);
        assert_eq!(node.peer_bytes(true), PAGE);
    }

    #[test]
    fn send_and_receive_connect_each_peer_and_pool_the_network() {
        let node = Setup::new(Version::two(30, 7), 8, 8, 90, true);
        assert_eq!(node.send(true), vec![2 * M; 32]);
        assert_eq!(node.receive(true), vec![10 * M; 32]);
        assert!(node.network_pool().is_empty());
        let nodes = Setup::new(Version::two(30, 7), 64, 8, 90, true);
        assert_eq!(nodes.receive(true), vec![10 * M; 2]);
        assert!(nodes.send(false).is_empty());
        assert_eq!(nodes.network_pool(), vec![32 * M; 2]);
        assert!(nodes.pool_at_start().is_empty());
    }

    #[test]
    fn a_communicator_that_connects_at_once_has_a_pool_from_its_start() {
        let at_start = |world, local, nvswitch| {
            let mut setup = Setup::new(Version::two(28, 9), world, local, 100, nvswitch);
            setup.late = false;
            setup.pool_at_start()
        };
        assert_eq!(at_start(8, 8, true), [256 * M]);
        assert_eq!(at_start(1, 1, false), [512 * M]);
        assert_eq!(at_start(2, 2, false), [4 * M]);
        assert_eq!(at_start(64, 8, true), [32 * M]);
        let mut small = Setup::new(Version::two(21, 5), 8, 8, 90, true);
        small.buffers.simple = M;
        assert_eq!(
            small.pool_at_start(),
            [64 * M],
            "no larger than a step of a buffer"
        );
        assert_eq!(
            Setup::new(Version::two(21, 5), 64, 8, 90, true).network_pool(),
            [32 * M]
        );
    }
}
