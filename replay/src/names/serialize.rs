//! How the definitions are written into a replay's state.

use rustc_hash::FxHashMap;

use super::Names;
use crate::coded::Coded;
use crate::ids::NodeId;

/// All but names that were baked in: those stand outside the order of records.
impl Coded for Names {
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
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let mut names = Self {
            apis: Coded::take(from)?,
            codes: Coded::take(from)?,
            py_stacks: Coded::take(from)?,
            backwards: Coded::take(from)?,
            native_stacks: Coded::take(from)?,
            modules: Coded::take(from)?,
            ranges: Coded::take(from)?,
            threads: Coded::take(from)?,
            devices: Coded::take(from)?,
            process: Coded::take(from)?,
            hooks: Coded::take(from)?,
            notes: Coded::take(from)?,
            interpreter: Coded::take(from)?,
            symbols: FxHashMap::default(),
            unknown: Coded::take(from)?,
            loaded: Coded::take(from)?,
            nodes: Coded::take(from)?,
            node_ids: FxHashMap::default(),
        };
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
