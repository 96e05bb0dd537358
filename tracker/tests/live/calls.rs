//! Calls that change several things at once: launches, the driver's answers, ends of contexts.

use gpumem_capture::{DeviceOrdinal, EventFlags};
use gpumem_tracker::{Interest, Kind, Origin};

use crate::model::{POOLED, Real, World};

impl World {
    pub fn launch(&mut self, graph: u64, fails: bool) {
        let origin = Origin::default();
        let (nodes, frees_first) = self.execs.get(&graph).cloned().unwrap_or_default();
        let is_live = |world: &Self, ptr| world.blocks.contains_key(&(false, ptr));
        // A driver refuses to run a node whose block is live, unless it frees it first.
        if !frees_first
            && nodes
                .iter()
                .any(|(ptr, bytes)| bytes.is_some() && is_live(self, *ptr))
        {
            return;
        }
        let Some(pending) = self.tracker.launching(graph, 0, origin) else {
            assert!(nodes.is_empty());
            return;
        };
        let before = self.blocks.clone();
        for (ptr, bytes) in &nodes {
            if bytes.is_some() {
                self.blocks.remove(&(false, *ptr));
            }
        }
        self.compare();
        self.tracker.settle(pending, !fails, origin);
        if fails {
            self.blocks = before;
            return;
        }
        for (ptr, bytes) in nodes {
            match bytes {
                Some(bytes) => self.blocks.insert(
                    (false, ptr),
                    Real {
                        bytes,
                        device: 0,
                        owner: 0,
                        flags: EventFlags::GRAPH,
                    },
                ),
                None => self.blocks.remove(&(false, ptr)),
            };
        }
    }

    /// The driver reports the sizes of pools: the sum of their blocks. It does not report destroyed
    /// pools.
    pub fn ask(&mut self, used: Option<u64>) {
        if let Some(pool) = used {
            self.tracker.pool_used(pool, DeviceOrdinal(0));
        }
        let Some(mut stale) = self.tracker.questions() else {
            return;
        };
        let mut questions = match self.tracker.only_pool() {
            Some((pool, device)) => self.tracker.asked().of_pool(pool, device),
            None => self
                .tracker
                .questions()
                .expect("there was something to ask"),
        };
        for (reservation, _, answer) in &mut questions.of {
            let pool = reservation.handle;
            let of_pool = |real: &&Real| real.flags.contains(POOLED) && real.owner == pool;
            if reservation.kind == Kind::Pool && self.pools.get(&pool) == Some(&false) {
                *answer = Some(
                    self.blocks
                        .values()
                        .filter(of_pool)
                        .map(|real| real.bytes)
                        .sum(),
                );
            }
        }
        self.tracker.answered(&questions, false, Origin::default());
        // The answer to an older query comes last: it has no effect.
        for (_, _, answer) in &mut stale.of {
            *answer = Some(0);
        }
        self.tracker.answered(&stale, false, Origin::default());
    }

    pub fn end_context(&mut self, pick: usize, fails: bool) {
        let origin = Origin::default();
        let Some((context, of)) =
            Self::any(self.contexts.iter().map(|(one, of)| (*one, *of)), pick)
        else {
            return;
        };
        let others = |world: &Self| {
            world
                .contexts
                .iter()
                .any(|(one, other)| *one != context && other.device == of.device)
        };
        let is_last = !others(self);
        let has_primary = self
            .contexts
            .iter()
            .any(|(one, other)| *one != context && other.device == of.device && !other.created);
        let device = DeviceOrdinal(of.device);
        let pending = match of.created {
            true => self
                .tracker
                .context_ending(context, has_primary, origin)
                .expect("it was created"),
            false => self.tracker.primary_ending(device, origin),
        };
        let before = self.blocks.clone();
        let pooled = |real: &Real| real.flags.contains(POOLED);
        self.blocks.retain(|_, real| {
            let of_context = !pooled(real) && real.owner == context;
            let of_device =
                (pooled(real) || real.owner == 0) && real.device == of.device && is_last;
            !(of_context || of_device)
        });
        self.read();
        assert_eq!(self.given.values().sum::<u64>(), self.touched());
        self.tracker.settle(pending, !fails, origin);
        if fails {
            self.blocks = before;
            return;
        }
        self.read();
        self.contexts.remove(&context);
        self.aliases
            .retain(|_, (_, opened_in)| *opened_in != context);
        if is_last {
            self.handles.retain(|_, one| one.device != of.device);
            let handles = &self.handles;
            self.mappings
                .retain(|_, handle| handles.contains_key(handle));
            self.said_mappings = self.mappings.keys().copied().collect();
            self.bindings.retain(|(object, _), handle| {
                handles.contains_key(object) && handles.contains_key(handle)
            });
        }
        assert!(!self.tracker.knows_context(context));
        assert_eq!(
            self.tracker.interest().has(Interest::INACTIVE_CONTEXTS),
            !self.tracker.inactive_contexts().is_empty()
        );
    }
}
