//! Queries of communicators and the library; unique ids; creation of communicators.

use crate::comm::{self, New, Part, with};
use crate::config::Config;
use crate::result::{NcclResult, cuda, put, require, result};
use crate::settings::Settings;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, In, Out};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// `NCCL_SPLIT_NOCOLOR`.
const NO_COLOR: i32 = -1;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UniqueId([u8; 128]);

/// `ncclGetVersion`.
pub fn version(place: Out<i32>) -> NcclResult {
    let code = i32::try_from(Settings::get().version.code()).unwrap_or(0);
    result(put(place, code))
}

/// `ncclGetUniqueId`, `ncclCommGetUniqueId`: every id is different; ids do not connect ranks.
pub fn unique_id(place: Out<UniqueId>) -> NcclResult {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let parts = [
        u64::from(std::process::id()),
        now.map_or(0, |time| time.as_nanos() as u64),
        COUNT.fetch_add(1, Ordering::Relaxed) + 1,
    ];
    let mut id = UniqueId([0; 128]);
    for (room, part) in id.0.chunks_mut(8).zip(parts) {
        room.copy_from_slice(&part.to_ne_bytes());
    }
    result(put(place, id))
}

/// `ncclCommGetUniqueId`.
pub fn unique_id_of(comm: Handle, place: Out<UniqueId>) -> NcclResult {
    match with(comm, |_| Ok(())) {
        Ok(()) => unique_id(place),
        Err(failed) => result(Err(failed)),
    }
}

fn number(number: i32) -> Result<u64, NcclResult> {
    u64::try_from(number).map_err(|_| NcclResult::INVALID_ARGUMENT)
}

fn new(place: Out<Handle>, world: i32, rank: i32, config: Address) -> NcclResult {
    result((|| {
        let new = New {
            world: number(world)?,
            rank: number(rank)?,
            here: None,
            config: Config::read(config)?,
            shares: false,
        };
        comm::make(place, new)
    })())
}

/// `ncclCommInitRank`.
pub fn init_rank(place: Out<Handle>, world: i32, _id: UniqueId, rank: i32) -> NcclResult {
    new(place, world, rank, 0)
}

/// `ncclCommInitRankConfig`.
pub fn init_rank_config(
    place: Out<Handle>,
    world: i32,
    _id: UniqueId,
    rank: i32,
    config: Address,
) -> NcclResult {
    new(place, world, rank, config)
}

/// `ncclCommInitRankScalable`.
pub fn init_rank_scalable(
    place: Out<Handle>,
    world: i32,
    rank: i32,
    _ids: i32,
    _id: Address,
    config: Address,
) -> NcclResult {
    new(place, world, rank, config)
}

/// `ncclCommInitAll`: every rank is in this process.
pub fn init_all(places: Address, count: i32, devices: In<i32>) -> NcclResult {
    result((|| {
        let world = number(count)?;
        require(places != 0 && world > 0)?;
        let mut before = 0;
        cuda(cu::cuInit(0))?;
        cuda(cu::cuCtxGetCurrent(Out::to(&mut before)))?;
        let (mut made, mut done) = (Ok(()), Vec::new());
        for rank in 0..world {
            made = made.and_then(|()| {
                let device = match devices.is_null() {
                    true => rank as i32,
                    false => cuda(devices.nth(rank as usize))?,
                };
                let mut context = 0;
                cuda(cu::cuDevicePrimaryCtxRetain(Out::to(&mut context), device))?;
                cuda(cu::cuCtxSetCurrent(context))?;
                let place = Out::<Handle>::at(places + rank as usize * size_of::<Handle>());
                let new = New {
                    world,
                    rank,
                    here: Some(world),
                    config: Config::default(),
                    shares: false,
                };
                comm::make(place, new)?;
                done.push(place);
                Ok(())
            });
        }
        cuda(cu::cuCtxSetCurrent(before))?;
        if made.is_err() {
            for place in done {
                let _ = place.get().map(comm::destroy);
            }
        }
        made
    })())
}

/// `ncclCommSplit`. Only the ranks, which are not here, know how many of them have the same colour.
/// The setting defines it, or the parent's ranks are an upper bound.
pub fn split(
    parent: Handle,
    color: i32,
    key: i32,
    place: Out<Handle>,
    config: Address,
) -> NcclResult {
    result((|| {
        let config = Config::read(config)?;
        let (all, rank) = with(parent, |comm| Ok((comm.world(), comm.rank)))?;
        if color == NO_COLOR {
            return put(place, 0);
        }
        require(color >= 0)?;
        let world = split_size(all);
        let rank = number(key)
            .ok()
            .filter(|key| *key < world)
            .unwrap_or(rank % world);
        let new = New {
            world,
            rank,
            here: None,
            config,
            shares: config.split_shares,
        };
        comm::make(place, new)
    })())
}

fn split_size(all: u64) -> u64 {
    static SAID: AtomicBool = AtomicBool::new(false);
    if let Some(set) = Settings::get().split {
        return set.min(all);
    }
    if all > 1 && !SAID.swap(true, Ordering::Relaxed) {
        // Without a stderr the line is lost.
        let _ = writeln!(
            std::io::stderr(),
            "gpumem simulator: ncclCommSplit cannot know how many ranks share a colour: taking all {all}; \
             GPUMEM_SIM_NCCL_SPLIT sets it"
        );
    }
    all
}

/// `ncclCommShrink`: the remaining ranks, in their order.
pub fn shrink(
    parent: Handle,
    excluded: In<i32>,
    count: i32,
    place: Out<Handle>,
    config: Address,
    _flags: i32,
) -> NcclResult {
    result((|| {
        let config = Config::read(config)?;
        let (all, rank) = with(parent, |comm| Ok((comm.world(), comm.rank)))?;
        let mut left: Vec<u64> = (0..all).collect();
        for place in 0..number(count)? as usize {
            let excluded = number(cuda(excluded.nth(place))?)?;
            left.retain(|rank| *rank != excluded);
        }
        let rank = left.iter().position(|of| *of == rank);
        let new = New {
            world: left.len() as u64,
            rank: rank.ok_or(NcclResult::INVALID_ARGUMENT)? as u64,
            here: None,
            config,
            shares: config.shrink_shares,
        };
        comm::make(place, new)
    })())
}

/// `ncclCommGrow`: an existing rank keeps its number.
pub fn grow(
    parent: Handle,
    world: i32,
    _id: Address,
    rank: i32,
    place: Out<Handle>,
    config: Address,
) -> NcclResult {
    result((|| {
        let rank = match parent {
            0 => number(rank)?,
            _ => with(parent, |comm| Ok(comm.rank))?,
        };
        let new = New {
            world: number(world)?,
            rank,
            here: None,
            config: Config::read(config)?,
            shares: false,
        };
        comm::make(place, new)
    })())
}

/// For calls without effect on memory: `ncclCommFinalize`, `ncclCommRevoke`.
pub fn accepted(comm: Handle) -> NcclResult {
    result(with(comm, |_| Ok(())))
}

/// `ncclCommGetAsyncError`: always success.
pub fn async_error(comm: Handle, place: Out<NcclResult>) -> NcclResult {
    result(with(comm, |_| put(place, NcclResult::SUCCESS)))
}

/// `ncclCommCount`.
pub fn count(comm: Handle, place: Out<i32>) -> NcclResult {
    result(with(comm, |comm| put(place, comm.world() as i32)))
}

/// `ncclCommUserRank`.
pub fn user_rank(comm: Handle, place: Out<i32>) -> NcclResult {
    result(with(comm, |comm| put(place, comm.rank as i32)))
}

/// `ncclCommCuDevice`.
pub fn device(comm: Handle, place: Out<i32>) -> NcclResult {
    result(with(comm, |comm| put(place, comm.device)))
}

/// `ncclCommSuspend`.
pub fn suspend(comm: Handle, _flags: i32) -> NcclResult {
    result(with(comm, comm::Comm::suspend))
}

/// `ncclCommResume`.
pub fn resume(comm: Handle) -> NcclResult {
    result(with(comm, comm::Comm::resume))
}

/// `ncclCommMemStats`: the memory that NCCL counts, which excludes the network's buffers,
/// `cuMemAlloc` and code.
pub fn statistics(comm: Handle, which: u32, place: Out<u64>) -> NcclResult {
    result(with(comm, |comm| {
        let suspended = comm.suspended.is_some();
        let transfers = comm.counted(Part::Transfers);
        let structures = comm.counted(Part::Structures);
        put(
            place,
            match which {
                0 => match &comm.suspended {
                    Some(sizes) => sizes.iter().map(|(bytes, _)| bytes).sum(),
                    None => transfers,
                },
                1 => u64::from(suspended),
                2 => structures,
                3 => structures + transfers,
                _ => return Err(NcclResult::INVALID_ARGUMENT),
            },
        )
    }))
}

/// `ncclRedOpCreatePreMulSum`: operations are numbered after the built-in ones.
pub fn create_operation(
    place: Out<u32>,
    _scalar: Address,
    _kind: u32,
    _residence: u32,
    comm: Handle,
) -> NcclResult {
    const BUILT_IN: u32 = 5;
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = BUILT_IN + (COUNT.fetch_add(1, Ordering::Relaxed) % (1 << 20)) as u32;
    result(with(comm, |_| put(place, number)))
}

/// `ncclRedOpDestroy`.
pub fn destroy_operation(_operation: u32, comm: Handle) -> NcclResult {
    accepted(comm)
}
