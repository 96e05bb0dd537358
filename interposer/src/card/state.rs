//! The state of NVML and of the cards. A limit needs it before there is a session.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64};
use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpumem_capture::writer::lock::Lock;
use nvml_wrapper::{Device, Nvml};

/// The maximum number of measured devices.
pub(crate) const MOST: usize = 64;

/// The keys by which a device is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uuid: [u8; 16],
    pub(super) bus: Option<String>,
}

/// A process that NVML lists, and its used bytes if NVML reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) pid: u32,
    pub(crate) bytes: Option<u64>,
}

/// A device before this process's first context there.
#[derive(Clone)]
pub(super) struct Before {
    /// The processes there; `None` if NVML does not report them.
    pub(super) list: Option<Vec<Listed>>,
    /// Bytes of the card that were in use, and the physical level's live bytes.
    pub(super) used: (u64, u64),
}

/// The bytes that a limit withholds from a device.
pub(super) struct Withheld {
    /// Odd while it changes.
    pub(super) changes: AtomicU64,
    pub(super) bytes: AtomicU64,
}

/// The state of NVML and of the cards.
pub(super) struct Card {
    /// The state of the library: [`super::library`].
    pub(super) state: AtomicU8,
    pub(super) nvml: AtomicPtr<Nvml>,
    /// The process that opened it: NVML cannot be used in a forked child.
    pub(super) opener: AtomicU32,
    /// Why it could not be opened.
    pub(super) problem: OnceLock<String>,
    /// Whether queries have ended.
    pub(super) closed: AtomicBool,
    /// The keys of each device that this process has used.
    pub(super) identities: Lock<BTreeMap<u8, Identity>>,
    /// Each device after the search for it; `None` inside if NVML does not have it.
    pub(super) found: [OnceLock<Option<Device<'static>>>; MOST],
    /// The devices for which the account reports that NVML does not have them, a bit each.
    pub(super) unknown: AtomicU64,
    /// The id of this process in NVML's lists; 0 while it is unknown.
    pub(super) me: AtomicU32,
    /// The ids of this process, here and in outer namespaces.
    pub(super) own_pids: OnceLock<Vec<u32>>,
    /// The devices on which this process has a context.
    pub(super) before: Lock<BTreeMap<u8, Before>>,
    /// True until it is known that there is no limit.
    pub(super) may_be_withheld: AtomicBool,
    pub(super) withheld: [Withheld; MOST],
}

pub(super) static CARD: Card = Card {
    state: AtomicU8::new(0),
    nvml: AtomicPtr::new(null_mut()),
    opener: AtomicU32::new(0),
    problem: OnceLock::new(),
    closed: AtomicBool::new(false),
    identities: Lock::new(BTreeMap::new()),
    found: [const { OnceLock::new() }; MOST],
    unknown: AtomicU64::new(0),
    me: AtomicU32::new(0),
    own_pids: OnceLock::new(),
    before: Lock::new(BTreeMap::new()),
    may_be_withheld: AtomicBool::new(true),
    withheld: [const {
        Withheld {
            changes: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }; MOST],
};
