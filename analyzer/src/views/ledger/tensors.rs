//! Live tensors, for queries about a pool.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Place, Workspaces};
use crate::attribution::Owner;
use crate::replay::Figure;

/// Live tensors by address.
#[derive(Debug, Default)]
pub(super) struct Tensors {
    blocks: BTreeMap<u64, (u64, Owner)>,
}

impl Tensors {
    /// Adds a tensor.
    pub fn insert(&mut self, address: u64, bytes: u64, owner: Owner) {
        self.blocks.insert(address, (bytes, owner));
    }

    /// The sum of bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks.values().map(|(bytes, _)| bytes).sum()
    }

    /// Bytes by the line that allocated them.
    pub fn by_owner(&self) -> BTreeMap<Owner, u64> {
        let mut out = BTreeMap::new();
        for (bytes, owner) in self.blocks.values() {
            *out.entry(owner.clone()).or_default() += bytes;
        }
        out
    }

    /// The workspaces of cuBLAS among them.
    pub fn workspaces(&self) -> Option<Workspaces> {
        let (mut all, mut by_owner) = (Figure::default(), BTreeMap::<&Owner, u64>::new());
        let workspaces = self.blocks.values();
        for (bytes, owner) in workspaces.filter(|(_, owner)| owner.is_workspace()) {
            let (bytes, blocks) = (*bytes, 1);
            all += Figure { bytes, blocks };
            *by_owner.entry(owner).or_default() += bytes;
        }
        let most = by_owner.into_iter();
        let (owner, _) = most.max_by_key(|(owner, bytes)| (*bytes, Reverse(*owner)))?;
        Some(Workspaces {
            bytes: all.bytes,
            blocks: all.blocks,
            place: Place::of(Some(owner)),
            owner: owner.clone(),
        })
    }

    /// Tensors that begin in a range: address, bytes, owner.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, &Owner)> {
        let end = end.max(start);
        self.blocks
            .range(start..end)
            .map(|(address, (bytes, owner))| (*address, *bytes, owner))
    }

    /// Owners of tensors that overlap a range.
    pub fn touching(&self, start: u64, end: u64) -> impl Iterator<Item = &Owner> {
        let before = self.blocks.range(..start).next_back();
        before
            .filter(move |(address, (bytes, _))| address.saturating_add(*bytes) > start)
            .map(|(_, (_, owner))| owner)
            .into_iter()
            .chain(self.within(start, end).map(|(_, _, owner)| owner))
    }
}
