//! Contexts: their objects, primary contexts, and each thread's context stack.

use super::handles::Handles;
use super::small::SmallPages;
use crate::ffi::{Answer, CuError};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// A context and its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// The context's handle.
    pub context: usize,
    /// The device's ordinal.
    pub device: usize,
}

/// A value that a client stores in a context, with its destructor.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// The value.
    pub value: usize,
    /// Called as `(context, key, value)` when the context ends; 0 for none.
    pub destructor: usize,
}

/// One live context.
#[derive(Debug)]
pub struct Context {
    /// Its device.
    pub device: usize,
    /// Its number, which is never reused.
    pub id: u64,
    /// `CUctx_flags`.
    pub flags: u32,
    /// References to it from `cuCtxAttach`, in addition to the first one.
    pub attached: u32,
    /// Limits that were set, by `CUlimit`.
    pub limits: BTreeMap<u32, usize>,
    /// Device memory that its stack limit costs in addition to the default.
    pub stack_bytes: u64,
    /// Device memory that the first managed memory on the device has cost.
    pub managed_bytes: u64,
    /// Device memory that its streams have cost.
    pub stream_bytes: u64,
    /// `CUfunc_cache` preference.
    pub cache_config: u32,
    /// Shared memory bank size preference.
    pub shared_config: u32,
    /// Contexts whose memory it can access.
    pub peers: BTreeSet<usize>,
    /// Context-local storage, by key.
    pub storage: BTreeMap<usize, Stored>,
    /// Pages for its small allocations.
    pub small: SmallPages,
}

/// The primary context of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Primary {
    pub(crate) handle: usize,
    pub(crate) references: u32,
    pub(crate) flags: u32,
}

/// Every context.
#[derive(Debug)]
pub struct Contexts {
    pub(crate) live: Handles<Context>,
    pub(crate) primary: Vec<Primary>,
    pub(crate) next_id: u64,
}

/// Work after a context has ended, to do without the lock: destructors of context-local storage.
#[must_use]
#[derive(Debug, Default)]
pub struct Ending {
    pub(crate) context: usize,
    pub(crate) stored: BTreeMap<usize, Stored>,
}

impl Ending {
    /// Calls the destructors of the context's storage. The state must not be locked.
    pub fn run(self) {
        for (key, stored) in self.stored {
            if stored.destructor == 0 {
                continue;
            }
            // SAFETY: the client passed this function for this purpose with this signature
            // (context-local storage of the runtime).
            let destructor = unsafe {
                std::mem::transmute::<usize, extern "C" fn(usize, usize, usize)>(stored.destructor)
            };
            destructor(self.context, key, stored.value);
        }
    }
}

impl Contexts {
    /// No contexts, for this number of devices.
    pub fn new(devices: usize) -> Self {
        let mut live = Handles::new(1);
        let primary = (0..devices)
            .map(|_| Primary {
                handle: live.reserve(),
                references: 0,
                flags: 0,
            })
            .collect();
        Self {
            live,
            primary,
            next_id: 1,
        }
    }

    /// A live context.
    pub fn get(&self, handle: usize) -> Answer<&Context> {
        self.live.get(handle).ok_or(CuError::INVALID_CONTEXT)
    }

    /// A live context, to change.
    pub fn get_mut(&mut self, handle: usize) -> Answer<&mut Context> {
        self.live.get_mut(handle).ok_or(CuError::INVALID_CONTEXT)
    }

    /// The handle of a device's primary context, live or not.
    pub fn primary_handle(&self, device: usize) -> usize {
        self.primary[device].handle
    }

    /// A primary context's flags, and whether it is live.
    pub fn primary_state(&self, device: usize) -> (u32, bool) {
        let primary = &self.primary[device];
        (primary.flags, self.live.get(primary.handle).is_some())
    }

    /// Sets the flags that a primary context has or will have.
    pub fn set_primary_flags(&mut self, device: usize, flags: u32) {
        let handle = self.primary[device].handle;
        self.primary[device].flags = flags;
        if let Some(context) = self.live.get_mut(handle) {
            context.flags = flags;
        }
    }

    /// Takes a reference to a device's primary context without creating it; its first use creates
    /// it.
    pub fn refer_to_primary(&mut self, device: usize) -> usize {
        self.primary[device].references += 1;
        self.primary[device].handle
    }

    /// Whether any context of the device is live.
    pub fn any_on(&self, device: usize) -> bool {
        self.live
            .iter()
            .any(|(_, context)| context.device == device)
    }

    pub(crate) fn primary_of(&self, handle: usize) -> Option<usize> {
        self.primary.iter().position(|p| p.handle == handle)
    }

    pub(crate) fn insert(&mut self, handle: usize, device: usize, flags: u32) {
        let context = Context {
            device,
            id: self.next_id,
            flags,
            attached: 0,
            limits: BTreeMap::new(),
            stack_bytes: 0,
            managed_bytes: 0,
            stream_bytes: 0,
            cache_config: 0,
            shared_config: 0,
            peers: BTreeSet::new(),
            storage: BTreeMap::new(),
            small: SmallPages::default(),
        };
        self.next_id += 1;
        self.live.insert_at(handle, context);
    }
}

thread_local! {
    /// This thread's contexts, the current one last. Without a destructor, because clients call the
    /// driver from exit handlers, after a thread's destructors have run.
    static STACK: std::mem::ManuallyDrop<RefCell<Vec<usize>>> =
        const { std::mem::ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// The calling thread's current context.
pub fn top() -> Option<usize> {
    STACK.with(|stack| stack.borrow().last().copied())
}

/// Pushes `handle`, which becomes current.
pub fn push(handle: usize) {
    STACK.with(|stack| stack.borrow_mut().push(handle));
}

/// Pops the current context.
pub fn pop() -> Option<usize> {
    STACK.with(|stack| stack.borrow_mut().pop())
}

/// Pops `handle` as often as it is at the top (the context is being destroyed).
pub fn pop_if_top(handle: usize) {
    STACK.with(|stack| {
        let mut stack = stack.borrow_mut();
        if stack.last() == Some(&handle) {
            stack.pop();
        }
    });
}
