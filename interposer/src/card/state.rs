//! What is known of NVML and of the cards. A limit asks for it before there is a session.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64};
use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpumem_capture::writer::lock::Lock;
use nvml_wrapper::{Device, Nvml};

/// More devices than these are not measured.
pub(crate) const MOST: usize = 64;

/// What a device is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uuid: [u8; 16],
    pub(super) bus: Option<String>,
}

/// A process that NVML lists, and what it uses if NVML tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) pid: u32,
    pub(crate) bytes: Option<u64>,
}

/// A device before this process's first context there.
#[derive(Clone)]
pub(super) struct Before {
    /// The processes there; `None`: NVML does not tell.
    pub(super) list: Option<Vec<Listed>>,
    /// Bytes of the card that were in use, and the physical level's live bytes.
    pub(super) used: (u64, u64),
}

/// What a limit withholds of a device.
pub(super) struct Withheld {
    /// Odd while it changes.
    pub(super) changes: AtomicU64,
    pub(super) bytes: AtomicU64,
}

/// What is known.
pub(super) struct Card {
    /// How far the library is: [`super::library`].
    pub(super) state: AtomicU8,
    pub(super) nvml: AtomicPtr<Nvml>,
    /// The process that opened it: NVML is of no use to a child forked since.
    pub(super) opener: AtomicU32,
    /// Why it could not be opened.
    pub(super) problem: OnceLock<String>,
    /// Whether nobody may ask any more.
    pub(super) closed: AtomicBool,
    /// By what each device that this process has used can be found.
    pub(super) identities: Lock<BTreeMap<u8, Identity>>,
    /// Each device once it was looked for; `None` inside if NVML does not know it.
    pub(super) found: [OnceLock<Option<Device<'static>>>; MOST],
    /// The devices of which it was said that NVML does not know them, a bit each.
    pub(super) unknown: AtomicU64,
    /// The number that this process goes by in NVML's lists; 0 while it is not known.
    pub(super) me: AtomicU32,
    /// The numbers that this process goes by, here and in outer namespaces.
    pub(super) own_pids: OnceLock<Vec<u32>>,
    /// The devices on which this process has a context.
    pub(super) before: Lock<BTreeMap<u8, Before>>,
    /// Until it is known whether there is a limit, there may be one.
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
