//! Serialization of the definitions into a replay's state.

use rustc_hash::FxHashMap;

use super::{Names, OwnPackages};
use crate::ids::NodeId;
use crate::serialize::Serialize;

/// Everything except embedded names, which are not part of the order of records.
impl Serialize for Names {
    fn put(&self, to: &mut Vec<u8>) {
        self.apis.put(to);
        self.codes.put(to);
        self.py_stacks.put(to);
        self.backwards.put(to);
        self.native_stacks.put(to);
        self.modules.put(to);
        self.ranges.put(to);
        self.threads.put(to);
        self.devices.put(to);
        self.process.put(to);
        self.hooks.put(to);
        self.notes.put(to);
        self.interpreter.put(to);
        self.unknown.put(to);
        self.loaded.put(to);
        self.nodes.put(to);
        self.nn.put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let mut names = Self {
            apis: Serialize::take(from)?,
            codes: Serialize::take(from)?,
            py_stacks: Serialize::take(from)?,
            backwards: Serialize::take(from)?,
            native_stacks: Serialize::take(from)?,
            modules: Serialize::take(from)?,
            ranges: Serialize::take(from)?,
            threads: Serialize::take(from)?,
            devices: Serialize::take(from)?,
            process: Serialize::take(from)?,
            hooks: Serialize::take(from)?,
            notes: Serialize::take(from)?,
            interpreter: Serialize::take(from)?,
            symbols: FxHashMap::default(),
            unknown: Serialize::take(from)?,
            loaded: Serialize::take(from)?,
            nodes: Serialize::take(from)?,
            nn: Serialize::take(from)?,
            own_packages: OwnPackages::default(),
            node_ids: FxHashMap::default(),
        };
        names.read_own_packages();
        let modules = names.modules.len();
        if names
            .loaded
            .values()
            .any(|index| *index as usize >= modules)
        {
            return None;
        }
        let ids = names.nodes.iter().zip(0..);
        names.node_ids = ids.map(|(name, id)| (name.clone(), NodeId(id))).collect();
        Some(names)
    }
}
