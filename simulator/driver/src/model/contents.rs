//! What is known about memory without reading it, by its address.

use super::State;
use super::memory::{Allocation, Backing};
use crate::files;
use crate::sparse::{Contents, Piece};
use std::os::fd::AsRawFd;

impl State {
    /// The parts of a range.
    pub fn contents(&self, address: u64, bytes: u64) -> Vec<Piece> {
        let end = address + bytes;
        let mut pieces = Vec::new();
        let mut at = address;
        while at < end {
            let Some(allocation) = self.memory.holding(at) else {
                let bytes = end - at;
                pieces.push(anything(bytes));
                break;
            };
            let part = end.min(allocation.base + allocation.bytes) - at;
            match allocation.backing {
                Backing::Mapping => pieces.extend(self.in_file(allocation, at, part)),
                _ => pieces.push(Piece {
                    bytes: part,
                    contents: self.contents_of(allocation),
                }),
            }
            at += part;
        }
        pieces
    }

    /// Whether a range is in memory that the simulated driver has mapped, so that its pages can be
    /// returned to the host.
    pub fn has_made(&self, address: u64, bytes: u64) -> bool {
        let end = address + bytes;
        let mut at = address;
        while at < end {
            match self.memory.holding(at) {
                Some(found) if found.backing != Backing::Foreign => at = found.base + found.bytes,
                _ => return false,
            }
        }
        true
    }

    /// Whether an address is in device memory, including managed memory.
    pub fn is_on_device(&self, address: u64) -> bool {
        let found = self.memory.holding(address);
        found.is_some_and(|allocation| !allocation.is_host())
    }

    fn contents_of(&self, allocation: &Allocation) -> Contents {
        let private = match allocation.backing {
            Backing::Pages { .. } => !self.ipc.shared.contains_key(&allocation.base),
            Backing::Pool { pool } => self.pools.get(pool).is_ok_and(|pool| pool.file.is_none()),
            Backing::Graph | Backing::Global { .. } => true,
            // Pages of several allocations, and memory of others.
            Backing::Small
            | Backing::Mapping
            | Backing::Multicast
            | Backing::Foreign
            | Backing::Imported { .. } => false,
        };
        if private {
            Contents::Private
        } else {
            Contents::Anything
        }
    }

    fn in_file(&self, mapped: &Allocation, at: u64, bytes: u64) -> Vec<Piece> {
        let mapping = self.vmm.mappings.get(&mapped.base);
        let physical = mapping.and_then(|mapping| self.vmm.peek(mapping.handle).ok());
        match (mapping, physical) {
            (Some(mapping), Some(physical)) => {
                let offset = mapping.offset + (at - mapped.base);
                files::data(physical.file.as_raw_fd(), offset, bytes)
            }
            _ => vec![anything(bytes)],
        }
    }
}

fn anything(bytes: u64) -> Piece {
    Piece {
        bytes,
        contents: Contents::Anything,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{self, Access};
    use crate::model::kind::Kind;
    use crate::model::tests::{MIB, at, machine, properties};

    fn all(of: &State, address: u64, bytes: u64) -> Vec<Contents> {
        let pieces = of.contents(address, bytes);
        assert_eq!(pieces.iter().map(|piece| piece.bytes).sum::<u64>(), bytes);
        pieces.iter().map(|piece| piece.contents).collect()
    }

    #[test]
    fn memory_of_one_process_is_private_until_it_is_shared() {
        let mut state = State::new(machine("1GiB"));
        let current = at(&state, 0);
        let bytes = 4 * MIB;
        let device = state
            .allocate_device(current, bytes, Kind::Device)
            .expect("room");
        let pool = state.allocate_async(current, bytes).expect("room");
        let host = state.allocate_host(current, bytes, 0).expect("room");
        for address in [device, pool, host] {
            assert_eq!(all(&state, address, bytes), [Contents::Private]);
            assert!(state.has_made(address + 1, bytes - 1));
        }
        assert_eq!(
            [device, host].map(|at| state.is_on_device(at)),
            [true, false]
        );
        state.share(device).expect("a handle");
        assert_eq!(all(&state, device, bytes), [Contents::Anything]);
    }

    #[test]
    fn mappings_side_by_side_are_what_their_files_hold() {
        let mut state = State::new(machine("1GiB"));
        let (half, whole) = (2 * MIB, 4 * MIB);
        let base = state.reserve_addresses(whole, 0, 0).expect("addresses");
        for at in [base, base + half] {
            let handle = state.create_physical(half, properties(0)).expect("room");
            state.map_physical(at, half, 0, handle).expect("a mapping");
        }
        state
            .set_access(base, whole, Access::ReadWrite)
            .expect("it");
        host::fill(base + half, 1, 7, 4096);
        let found = all(&state, base + 100, whole - 100);
        let (zeros, anything) = (Contents::Zeros, Contents::Anything);
        assert_eq!(found, [zeros, anything, zeros]);
        assert!(state.has_made(base, whole));
    }

    #[test]
    fn memory_of_the_program_may_hold_anything_and_is_not_given_back() {
        let mut state = State::new(machine("1GiB"));
        let current = at(&state, 0);
        let own = vec![0u8; MIB as usize];
        let address = own.as_ptr() as u64;
        assert!(!state.has_made(address, MIB));
        state
            .register_host(current, address, MIB, 0)
            .expect("registered");
        assert_eq!(all(&state, address, MIB), [Contents::Anything]);
        assert!(!state.has_made(address, MIB) && !state.is_on_device(address));
    }
}
