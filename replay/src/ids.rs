//! Numbers of stacks and of classes of nodes in a replay.

use std::hash::{Hash, Hasher};

use gpumem_capture::StackId;

use crate::category::Category;
use crate::purpose::Purpose;
use crate::serialize::serialize;

/// An interned pair of stacks: index into [`crate::Replay::keys`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub u32);

impl KeyId {
    /// No key.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// A class of nodes: see [`crate::names::Names::node`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// The stacks of an event, and its purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StackKey {
    /// Python stack.
    pub py: StackId,
    /// Native stack.
    pub native: StackId,
    /// The module that made the call, if the recorder stores it: see [`Caller::module`].
    pub caller: Caller,
    /// Its purpose; not kept for frees.
    pub purpose: Purpose,
}

/// Hashes two words instead of four, because every event's key is looked up.
impl Hash for StackKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        state.write_u64(word(self.py.0, self.native.0));
        state.write_u64(word(self.caller.0, u32::from(self.purpose.0)));
    }
}

/// The module that made a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Caller(u32);

impl Caller {
    /// Unknown.
    pub(crate) const UNKNOWN: Self = Self(0);

    /// The module whose index in [`crate::names::Names::modules`] is this.
    pub fn of(module: Option<u32>) -> Self {
        Self(module.map_or(0, |index| index + 1))
    }

    /// Index into [`crate::names::Names::modules`]; `None` if unknown.
    pub fn module(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

impl StackKey {
    /// The same stacks, for blocks of all categories.
    pub fn without_category(self) -> Self {
        self.with_category(Category::None)
    }

    /// The same stacks, for blocks of one category.
    pub fn with_category(self, category: Category) -> Self {
        Self {
            purpose: self.purpose.with(category),
            ..self
        }
    }

    /// Stands for all evicted stacks.
    pub const EVICTED: Self = Self {
        py: StackId::EVICTED,
        native: StackId::EVICTED,
        caller: Caller::UNKNOWN,
        purpose: Purpose::NONE,
    };
}

serialize! {
    KeyId { 0 }
    NodeId { 0 }
    StackKey { py, native, caller, purpose }
    Caller { 0 }
}
