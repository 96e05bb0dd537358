//! The state of NVTX. Programs set it up, and name ranges, before there is a session.

use core::hash::BuildHasherDefault;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::OnceLock;

use dashmap::DashMap;
use rustc_hash::FxHasher;

use super::module::MOST;

type Map<V> = DashMap<u64, V, BuildHasherDefault<FxHasher>>;

pub(super) struct Nvtx {
    /// Another tool's entry point; 0 without another tool.
    pub(super) tool: AtomicUsize,
    /// A tool's entry point is being called: if it looks for another tool's, that one is not chained
    /// again.
    pub(super) is_calling: AtomicBool,
    /// Functions of another tool, by module; 0 without one.
    pub(super) theirs: [[AtomicUsize; MOST]; 2],
    /// The number of assigned ids of ranges, domains and strings.
    pub(super) handed_out: AtomicU64,
    /// The number of ranges that were pushed in domains other than the default one.
    pub(super) pushed: AtomicU32,
    texts: OnceLock<Map<Box<[u8]>>>,
    started: OnceLock<Map<()>>,
}

pub(super) static NVTX: Nvtx = Nvtx {
    tool: AtomicUsize::new(0),
    is_calling: AtomicBool::new(false),
    theirs: [const { [const { AtomicUsize::new(0) }; MOST] }; 2],
    handed_out: AtomicU64::new(0),
    pushed: AtomicU32::new(0),
    texts: OnceLock::new(),
    started: OnceLock::new(),
};

impl Nvtx {
    /// Texts by the number that the program passes.
    pub(super) fn texts(&self) -> &Map<Box<[u8]>> {
        self.texts.get_or_init(Map::default)
    }

    /// Ranges that any thread may end, if their start is recorded.
    pub(super) fn started(&self) -> &Map<()> {
        self.started.get_or_init(Map::default)
    }
}
