//! Collectives. They make the connections that they need, and deliver data that is known.
//!
//! With one rank that is all data. With more, small messages are delivered as if the other ranks
//! held the same data as this one; see the crate's documentation.

use crate::comm::{Comm, with};
use crate::group::{self, Buffer, copy};
use crate::result::{NcclResult, require, result};
use crate::settings::Settings;
use gpumem_nccl_model::Collective;
use gpumem_sim_client::ffi::{Address, Handle};

/// Bytes of an element of `ncclDataType_t`.
fn element(kind: u32) -> Result<usize, NcclResult> {
    match kind {
        0 | 1 | 10 | 11 => Ok(1),
        6 | 9 => Ok(2),
        2 | 3 | 7 => Ok(4),
        4 | 5 | 8 => Ok(8),
        _ => Err(NcclResult::INVALID_ARGUMENT),
    }
}

fn bytes(count: usize, kind: u32) -> Result<usize, NcclResult> {
    let bytes = count.checked_mul(element(kind)?);
    bytes.ok_or(NcclResult::INVALID_ARGUMENT)
}

/// The buffers of a collective; `bytes` is the size of one rank's data.
#[derive(Clone, Copy, Debug)]
struct Data {
    from: Address,
    to: Address,
    bytes: usize,
    stream: Handle,
}

/// The properties of the communicator that a call needs.
#[derive(Clone, Copy, Debug)]
struct Place {
    rank: usize,
    world: usize,
}

impl Data {
    fn new(from: Address, to: Address, bytes: usize, stream: Handle) -> Self {
        Self {
            from,
            to,
            bytes,
            stream,
        }
    }

    /// Requires both buffers, unless the size is 0.
    fn check(self) -> Result<(), NcclResult> {
        require(self.bytes == 0 || self.from != 0 && self.to != 0)
    }

    /// Copies the `source`th part to the `target`th.
    fn part(self, target: usize, source: usize) -> Result<(), NcclResult> {
        let Self {
            from,
            to,
            bytes,
            stream,
        } = self;
        copy(to + target * bytes, from + source * bytes, bytes, stream)
    }

    /// Whether data is delivered.
    fn is_delivered(self, place: Place) -> bool {
        place.world == 1 || self.bytes as u64 <= Settings::get().copy_bytes
    }
}

/// Uses a communicator, which must be live and not suspended.
fn on(
    comm: Handle,
    ask: impl FnOnce(&mut Comm) -> Result<(), NcclResult>,
) -> Result<Place, NcclResult> {
    with(comm, |comm| {
        if comm.suspended.is_some() {
            return Err(NcclResult::INVALID_USAGE);
        }
        ask(comm)?;
        Ok(Place {
            rank: comm.rank as usize,
            world: comm.world() as usize,
        })
    })
}

/// A collective of an algorithm. The connections depend on the `total` bytes.
fn collective(
    comm: Handle,
    kind: Collective,
    data: Data,
    total: usize,
    deliver: impl FnOnce(Place) -> Result<(), NcclResult>,
) -> Result<(), NcclResult> {
    let place = on(comm, |comm| {
        let algorithms = comm.setup.algorithms(kind, total as u64);
        comm.connect(algorithms)
    })?;
    if data.is_delivered(place) {
        deliver(place)?;
    }
    Ok(())
}

/// `ncclAllReduce`.
pub fn all_reduce(
    from: Address,
    to: Address,
    count: usize,
    kind: u32,
    _operation: u32,
    comm: Handle,
    stream: Handle,
) -> NcclResult {
    result((|| {
        let bytes = bytes(count, kind)?;
        let data = Data::new(from, to, bytes, stream);
        data.check()?;
        collective(comm, Collective::AllReduce, data, bytes, |_| {
            data.part(0, 0)
        })
    })())
}

/// `ncclReduce`: only the root receives data.
#[allow(clippy::too_many_arguments)]
pub fn reduce(
    from: Address,
    to: Address,
    count: usize,
    kind: u32,
    _operation: u32,
    root: i32,
    comm: Handle,
    stream: Handle,
) -> NcclResult {
    result((|| {
        let bytes = bytes(count, kind)?;
        let data = Data::new(from, to, bytes, stream);
        let root = rank_of(comm, root)?;
        collective(comm, Collective::Rooted, data, bytes, |place| {
            if place.rank == root {
                data.check()?;
                data.part(0, 0)?;
            }
            Ok(())
        })
    })())
}

/// `ncclBroadcast`: copies this rank's buffer, as if it were the root's.
pub fn broadcast(
    from: Address,
    to: Address,
    count: usize,
    kind: u32,
    root: i32,
    comm: Handle,
    stream: Handle,
) -> NcclResult {
    result((|| {
        let bytes = bytes(count, kind)?;
        let data = Data::new(from, to, bytes, stream);
        let root = rank_of(comm, root)?;
        collective(comm, Collective::Rooted, data, bytes, |place| {
            let is_root = place.rank == root;
            if is_root || from != 0 {
                data.check()?;
                data.part(0, 0)?;
            }
            let buffer = Buffer {
                address: if is_root { from } else { to },
                bytes,
            };
            group::broadcast(comm, buffer, stream, is_root)
        })
    })())
}

/// `ncclBcast`.
pub fn broadcast_in_place(
    buffer: Address,
    count: usize,
    kind: u32,
    root: i32,
    comm: Handle,
    stream: Handle,
) -> NcclResult {
    broadcast(buffer, buffer, count, kind, root, comm, stream)
}

/// `ncclAllGather`: copies this rank's data to every place.
pub fn all_gather(
    from: Address,
    to: Address,
    count: usize,
    kind: u32,
    comm: Handle,
    stream: Handle,
) -> NcclResult {
    result((|| {
        let bytes = bytes(count, kind)?;
        let data = Data::new(from, to, bytes, stream);
        data.check()?;
        let world = with(comm, |comm| Ok(comm.world() as usize))?;
        let total = bytes.saturating_mul(world);
        collective(comm, Collective::Gather, data, total, |place| {
            (0..place.world).try_for_each(|rank| data.part(rank, 0))
        })
    })())
}

/// `ncclReduceScatter`: copies this rank's part of the data in its own buffer.
pub fn reduce_scatter(
    from: Address,
    to: Address,
    count: usize,
    kind: u32,
    _operation: u32,
    comm: Handle,
    stream: Handle,
) -> NcclResult {
    result((|| {
        let bytes = bytes(count, kind)?;
        let data = Data::new(from, to, bytes, stream);
        data.check()?;
        let world = with(comm, |comm| Ok(comm.world() as usize))?;
        let total = bytes.saturating_mul(world);
        collective(comm, Collective::Gather, data, total, |place| {
            data.part(0, place.rank)
        })
    })())
}

fn rank_of(comm: Handle, rank: i32) -> Result<usize, NcclResult> {
    let world = with(comm, |comm| Ok(comm.world()))?;
    let rank = u64::try_from(rank).map_err(|_| NcclResult::INVALID_ARGUMENT)?;
    require(rank < world)?;
    Ok(rank as usize)
}

/// Connects this rank with every other, in one or both directions.
fn exchange(comm: Handle, sends: bool, receives: bool) -> Result<Place, NcclResult> {
    on(comm, |comm| {
        for peer in 0..comm.world() {
            for way in [true, false] {
                if way && sends || !way && receives {
                    comm.connect_peer(peer, way)?;
                }
            }
        }
        Ok(())
    })
}

/// `ncclAlltoAll`.
pub fn all_to_all(
    from: Address,
    to: Address,
    count: usize,
    kind: u32,
    comm: Handle,
    stream: Handle,
) -> NcclResult {
    result((|| {
        let bytes = bytes(count, kind)?;
        let data = Data::new(from, to, bytes, stream);
        data.check()?;
        let place = exchange(comm, true, true)?;
        if data.is_delivered(place) {
            (0..place.world).try_for_each(|rank| data.part(rank, place.rank))?;
        }
        Ok(())
    })())
}

/// `ncclGather`.
pub fn gather(
    from: Address,
    to: Address,
    count: usize,
    kind: u32,
    root: i32,
    comm: Handle,
    stream: Handle,
) -> NcclResult {
    result((|| {
        let bytes = bytes(count, kind)?;
        let data = Data::new(from, to, bytes, stream);
        let root = rank_of(comm, root)?;
        let is_root = with(comm, |comm| Ok(comm.rank as usize == root))?;
        if !is_root {
            return on(comm, |comm| comm.connect_peer(root as u64, true)).map(drop);
        }
        data.check()?;
        let place = exchange(comm, false, true)?;
        if data.is_delivered(place) {
            (0..place.world).try_for_each(|rank| data.part(rank, 0))?;
        }
        Ok(())
    })())
}

/// `ncclScatter`.
pub fn scatter(
    from: Address,
    to: Address,
    count: usize,
    kind: u32,
    root: i32,
    comm: Handle,
    stream: Handle,
) -> NcclResult {
    result((|| {
        let bytes = bytes(count, kind)?;
        let data = Data::new(from, to, bytes, stream);
        let root = rank_of(comm, root)?;
        let is_root = with(comm, |comm| Ok(comm.rank as usize == root))?;
        if !is_root {
            return on(comm, |comm| comm.connect_peer(root as u64, false)).map(drop);
        }
        data.check()?;
        let place = exchange(comm, true, false)?;
        if data.is_delivered(place) {
            data.part(0, place.rank)?;
        }
        Ok(())
    })())
}

/// `ncclSend`: data is delivered only from a rank to itself.
pub fn send(
    from: Address,
    count: usize,
    kind: u32,
    peer: i32,
    comm: Handle,
    _stream: Handle,
) -> NcclResult {
    result((|| {
        let bytes = bytes(count, kind)?;
        let peer = rank_of(comm, peer)?;
        let place = on(comm, |comm| comm.connect_peer(peer as u64, true))?;
        let buffer = Buffer {
            address: from,
            bytes,
        };
        match peer == place.rank {
            true => group::send_to_itself(comm, buffer),
            false => Ok(()),
        }
    })())
}

/// `ncclRecv`.
pub fn receive(
    to: Address,
    count: usize,
    kind: u32,
    peer: i32,
    comm: Handle,
    stream: Handle,
) -> NcclResult {
    result((|| {
        let bytes = bytes(count, kind)?;
        let peer = rank_of(comm, peer)?;
        let place = on(comm, |comm| comm.connect_peer(peer as u64, false))?;
        let buffer = Buffer { address: to, bytes };
        match peer == place.rank {
            true => group::receive_from_itself(comm, buffer, stream),
            false => Ok(()),
        }
    })())
}
