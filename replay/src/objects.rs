//! Things with a name or an address that are not memory themselves: mappings, address space, loads, contexts.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Event, EventKind};
use rustc_hash::FxHashMap;

use crate::ids::KeyId;
use crate::names::Names;
use crate::serialize::serialize;

/// A VMM handle's mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its bytes.
    pub bytes: u64,
    /// Its handle.
    pub handle: u64,
    /// The device of the memory.
    pub device: DeviceOrdinal,
}

/// A module or library of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The module whose file holds the image: index into [`Names::modules`].
    pub image: Option<u32>,
    /// The stacks that loaded it.
    pub key: KeyId,
}

/// All such things that exist now. Bounded by what is live in the recorded process.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Mappings by first address.
    pub mappings: BTreeMap<u64, Mapping>,
    /// Address space by first address: bytes.
    pub address_space: BTreeMap<u64, u64>,
    /// Loads by handle.
    pub loads: FxHashMap<u64, Load>,
    /// The stacks that created each context, by device and handle, and its cost as recorded by older recorders.
    pub contexts: BTreeMap<(DeviceOrdinal, u64), (KeyId, u64)>,
    /// Bytes of memory owned elsewhere that this process can access, by the level's key. They count nowhere.
    pub aliases: FxHashMap<(DeviceOrdinal, u64), u64>,
    /// Memory nodes of graphs that were created.
    pub nodes: u64,
}

serialize! {
    Mapping { bytes, handle, device }
    Load { image, key }
    Objects { mappings, address_space, loads, contexts, aliases, nodes }
}

impl Objects {
    /// Whether an event changes more than the number of nodes.
    pub(crate) fn changes(kind: EventKind) -> bool {
        use EventKind as Kind;
        matches!(
            kind,
            Kind::MAP
                | Kind::UNMAP
                | Kind::ADDRESS
                | Kind::ADDRESS_END
                | Kind::MODULE_LOAD
                | Kind::MODULE_UNLOAD
                | Kind::CONTEXT
                | Kind::CONTEXT_END
                | Kind::ALIAS
                | Kind::ALIAS_END
        )
    }

    /// Calls `change` for the stacks of loads and contexts.
    pub(crate) fn each_key(&mut self, change: &mut dyn FnMut(&mut KeyId)) {
        for load in self.loads.values_mut() {
            change(&mut load.key);
        }
        for (key, _) in self.contexts.values_mut() {
            change(key);
        }
    }

    /// Takes in an event.
    pub(crate) fn update(&mut self, event: &Event, key: KeyId, names: &Names) {
        match event.kind {
            EventKind::MAP => {
                let mapping = Mapping {
                    bytes: event.bytes,
                    handle: event.aux,
                    device: event.device,
                };
                self.mappings.insert(event.ptr, mapping);
            }
            EventKind::UNMAP => {
                let end = event.ptr.saturating_add(event.bytes.max(1));
                let gone: Vec<u64> = self
                    .mappings
                    .range(event.ptr..end)
                    .map(|(address, _)| *address)
                    .collect();
                for address in gone {
                    self.mappings.remove(&address);
                }
            }
            EventKind::ADDRESS => drop(self.address_space.insert(event.ptr, event.bytes)),
            EventKind::ADDRESS_END => drop(self.address_space.remove(&event.ptr)),
            EventKind::MODULE_LOAD => {
                let image = (event.bytes != 0)
                    .then(|| names.module_at(event.bytes))
                    .flatten();
                self.loads.insert(event.ptr, Load { image, key });
            }
            EventKind::MODULE_UNLOAD => drop(self.loads.remove(&event.ptr)),
            EventKind::CONTEXT => {
                self.contexts
                    .insert((event.device, event.ptr), (key, event.bytes));
            }
            EventKind::CONTEXT_END => {
                self.contexts.remove(&(event.device, event.ptr));
            }
            EventKind::ALIAS => {
                self.aliases.insert((event.device, event.ptr), event.bytes);
            }
            EventKind::ALIAS_END => drop(self.aliases.remove(&(event.device, event.ptr))),
            EventKind::NODE => self.nodes += 1,
            _ => {}
        }
    }
}
