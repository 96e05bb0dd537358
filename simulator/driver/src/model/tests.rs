//! The model under random use. After every step the books must match a plain list of the live
//! allocations.

use super::State;
use super::context::Current;
use super::kind::Kind;
use crate::ffi::CuError;
use gpumem_cuda_abi::{CuMemAllocFlags, CuMemAllocationProp, CuMemLocation, CuMemLocationType};
use gpumem_sim_machine::Machine;

pub const MIB: u64 = 1 << 20;

pub fn machine(memory: &'static str) -> &'static Machine {
    let made = Machine::from_lookup(|name| match name {
        "GPUMEM_SIM_DEVICES" => Some("2".to_owned()),
        "GPUMEM_SIM_MEMORY" => Some(memory.to_owned()),
        "GPUMEM_SIM_CONTEXT_BYTES" => Some("10MiB".to_owned()),
        _ => None,
    });
    Box::leak(Box::new(made.machine))
}

pub fn properties(device: usize) -> CuMemAllocationProp {
    CuMemAllocationProp {
        kind: 1,
        requested_handle_types: 0,
        location: CuMemLocation {
            kind: CuMemLocationType::DEVICE,
            id: device as i32,
        },
        win32_handle_meta_data: std::ptr::null_mut(),
        alloc_flags: CuMemAllocFlags {
            compression_type: 0,
            gpu_direct_rdma_capable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

/// A small random number generator whose numbers depend only on the seed (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[derive(Clone, Copy, Debug)]
struct Live {
    kind: Kind,
    device: usize,
    address: u64,
    bytes: u64,
}

pub fn at(state: &State, device: usize) -> Current {
    Current {
        context: state.contexts.primary_handle(device),
        device,
    }
}

fn allocate(state: &mut State, random: &mut Random) -> Result<Live, CuError> {
    let device = random.below(2) as usize;
    let current = at(state, device);
    let bytes = match random.below(4) {
        0 => 1 + random.below(2000),
        1 => 1 + random.below(MIB),
        2 => 1 + random.below(8 * MIB),
        _ => 1 + random.below(60 * MIB),
    };
    let (kind, bytes, address) = match random.below(5) {
        0 => (
            Kind::Device,
            bytes,
            state.allocate_device(current, bytes, Kind::Device)?,
        ),
        1 => (
            Kind::Managed,
            bytes,
            state.allocate_managed(current, bytes, 1)?,
        ),
        2 => (Kind::Async, bytes, state.allocate_async(current, bytes)?),
        3 => (Kind::Host, bytes, state.allocate_host(current, bytes, 0)?),
        _ => {
            let whole = bytes.next_multiple_of(2 * MIB);
            let handle = state.create_physical(whole, properties(device))?;
            (Kind::Vmm, whole, handle)
        }
    };
    Ok(Live {
        kind,
        device,
        address,
        bytes,
    })
}

fn free(state: &mut State, live: Live) {
    let freed = match live.kind {
        Kind::Host => state.free_host(live.address),
        Kind::Vmm => state.release_physical(live.address),
        _ => state.free_device(live.address),
    };
    assert_eq!(freed, Ok(()), "{live:?}");
}

fn check(state: &State, live: &[Live]) {
    for device in 0..2 {
        let books = state.books.device(device);
        for kind in Kind::ALL {
            let mine = live.iter().filter(|l| l.kind == kind && l.device == device);
            let sum: u64 = mine.map(|l| l.bytes).sum();
            assert_eq!(books.kind(kind).current, sum, "{kind:?} on {device}");
        }
        let driver = live
            .iter()
            .filter(|l| l.device == device && l.kind != Kind::Host);
        assert_eq!(books.driver().current, driver.map(|l| l.bytes).sum::<u64>());
        let (physical, peak) = books.physical();
        assert!(physical <= peak && peak <= books.total_bytes());
        assert_eq!(physical % (2 * MIB), 0);
    }
    let mut ranges: Vec<(u64, u64)> = live
        .iter()
        .filter(|l| l.kind != Kind::Vmm)
        .map(|l| (l.address, l.bytes))
        .collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "allocations overlap");
    }
}

#[test]
fn the_books_are_the_sum_of_what_lives() {
    let mut state = State::new(machine("256MiB"));
    for device in 0..2 {
        assert!(state.retain_primary(device).is_ok());
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut live: Vec<Live> = Vec::new();
    let mut refused = 0;
    for step in 0..4000 {
        if random.below(100) < 49 && live.len() > 15 {
            let index = random.below(live.len() as u64) as usize;
            free(&mut state, live.swap_remove(index));
        } else {
            match allocate(&mut state, &mut random) {
                Ok(made) => live.push(made),
                Err(code) => {
                    assert_eq!(code, CuError::OUT_OF_MEMORY);
                    refused += 1;
                }
            }
        }
        if step % 100 == 0 {
            state.synchronised(0);
        }
        check(&state, &live);
    }
    assert!(refused > 10, "the card was never full");
    for one in std::mem::take(&mut live) {
        free(&mut state, one);
    }
    check(&state, &live);
    for device in 0..2 {
        state.synchronised(device);
        let books = state.books.device(device);
        assert_eq!(books.physical().0, 10 * MIB, "only the context is left");
        let row = books.driver();
        assert_eq!(row.allocations, row.frees);
    }
}

#[test]
fn the_end_of_a_context_frees_all_that_a_list_of_it_has() {
    let mut state = State::new(machine("1GiB"));
    for device in 0..2 {
        assert!(state.retain_primary(device).is_ok());
    }
    let mut random = Random(42);
    let made: Vec<Live> = (0..60)
        .filter_map(|_| allocate(&mut state, &mut random).ok())
        .collect();
    let (gone, stays): (Vec<Live>, Vec<Live>) = made.iter().partition(|l| l.device == 0);
    assert!(gone.len() > 10 && stays.len() > 10);
    state.reset_primary(0).run();
    check(&state, &stays);
    assert_eq!(state.books.device(0).physical().0, 0);
    for one in gone {
        let again = match one.kind {
            Kind::Host => state.free_host(one.address),
            Kind::Vmm => state.release_physical(one.address),
            _ => state.free_device(one.address),
        };
        assert_eq!(again, Err(CuError::INVALID_VALUE), "{one:?}");
    }
}

#[test]
fn a_refused_allocation_changes_nothing() {
    let mut state = State::new(machine("64MiB"));
    assert!(state.retain_primary(0).is_ok());
    let current = at(&state, 0);
    // A pool with an unused chunk, which must not change if a request is too large for the card.
    let pointer = state.allocate_async(current, 100).expect("it fits");
    assert_eq!(state.free_device(pointer), Ok(()));
    let before = state.books.json();
    let refused = state.allocate_device(current, 60 * MIB, Kind::Device);
    assert_eq!(refused, Err(CuError::OUT_OF_MEMORY));
    assert_eq!(state.books.json(), before);
    // A request that fits after the pool's chunk is freed takes its memory.
    assert!(
        state
            .allocate_device(current, 50 * MIB, Kind::Device)
            .is_ok()
    );
    assert_eq!(state.books.device(0).physical().0, 60 * MIB);
}
