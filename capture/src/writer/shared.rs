//! An open capture, shared by all of the writer's modules.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use gpumem_sys::threads;

use super::backpressure::Backpressure;
use super::clock::Clock;
use super::drain_state::Drain;
use super::error::{Ended, Lost};
use super::file::CaptureFile;
use super::fork::Owner;
use super::head::Head;
use super::loss::Losses;
use super::memory::Memory;
pub(super) use super::phase::Phase;
use super::queue::Queue;
use super::rows::{self, Rows, Used};
use super::store_state::{self, Stored};
use crate::header::StaticHeader;
use crate::lock::Lock;
use crate::ring::Ring;
use crate::{CounterValues, DeviceOrdinal, Level, Nanos, layout};

/// An open capture. Lives as long as the process.
#[repr(C)]
pub struct Writer {
    // Fields that each event reads come first, on as few cache lines as possible.
    pub(super) ring: Ring<'static>,
    pub(super) owner: Owner,
    pub(super) rows: Rows,
    /// Copies for readers of the capture.
    pub(super) head: &'static Head,
    /// Producers wake the drain when they cross a multiple of this many slots.
    pub(super) quarter: u64,
    pub(super) clock: Clock,
    pub(super) backpressure: Backpressure,
    pub(super) losses: Losses,
    /// Rows in which something is counted.
    pub(super) used: Used,
    /// Why recording ended, if it did before the process: [`Ended`]; otherwise 0.
    pub(super) ended: AtomicU8,
    pub(super) header: StaticHeader,
    pub(super) memory: Memory,
    /// Whether the drain writes to the file itself, because the ring is in it.
    pub(super) is_direct: bool,
    pub(super) file: OnceLock<CaptureFile>,
    /// The drain's output for the file.
    pub(super) queue: Queue,
    /// Every record before this is committed.
    pub(super) known: AtomicU64,
    /// Held by the thread that takes memory for more of the ring.
    pub(super) backing: Lock,
    /// What the threads must do: [`Phase`].
    pub(super) phase: AtomicU32,
    /// The phase for which the drain has moved everything: its number plus one.
    pub(super) flushed: AtomicU32,
    /// Held by the one thread that drains.
    pub(super) draining: Mutex<Drain>,
    /// Held by the one thread that writes the file.
    pub(super) storing: Mutex<Option<store_state::State>>,
    pub(super) stored: Stored,
    /// Held while the counters are copied to the head, and while the head is copied: the position of the counters.
    pub(super) publishing: Mutex<u64>,
}

impl Writer {
    /// The current time for events, in steps of 256 ns, which is less than an event takes. Finer steps are noise and
    /// need more of the disk: docs/measured/analyzer.md.
    #[inline]
    pub fn now(&self) -> Nanos {
        Nanos(self.clock.now() & !255)
    }

    /// The same clock in steps of a nanosecond: for durations.
    #[inline]
    pub fn fine_now(&self) -> Nanos {
        Nanos(self.clock.now())
    }

    pub(super) fn nonce(&self) -> u64 {
        self.ring.checks().nonce
    }

    /// The current time for fields of the head. For records of another process it is the same in every run.
    pub(super) fn stamp(&self) -> u64 {
        match self.header.pid {
            0 => 0,
            _ => self.now().0,
        }
    }

    /// The absolute path of the capture; None if it has no file yet.
    pub fn path(&self) -> Option<&Path> {
        self.file.get().map(CaptureFile::path)
    }

    /// The path of the ring, if it is in a separate file. None once it was removed ([`Writer::is_partly_private`]).
    pub fn ring_path(&self) -> Option<&Path> {
        let path = self.header.ring_path()?;
        (!self.is_partly_private()).then_some(path)
    }

    /// The ring's memory as a file, for another process to hold open: its content then outlives this process wherever
    /// it is. None if the ring has no separate file. Must be called by the thread that began the capture.
    ///
    /// # Errors
    /// The system's error.
    pub fn ring_handle(&self) -> Option<io::Result<File>> {
        self.memory.handle()
    }

    /// Why the ring is not at the preferred place, if so.
    pub fn ring_fell_back(&self) -> Option<&str> {
        self.memory.fell_back.as_deref()
    }

    /// The mapped memory that other processes can access, and its size in bytes; None if it is private.
    pub fn shared_memory(&self) -> Option<(*mut u8, usize)> {
        let memory = &self.memory;
        let bytes = memory.ring_bytes + memory.queue_bytes;
        memory.is_shared.then_some((memory.base, bytes))
    }

    /// Two words of this process's own memory, for a signal handler that replaces [`Writer::shared_memory`] by other
    /// memory. Before that, the handler stores 1 in the second word, which marks the memory as lost, and then 0 in the
    /// first, which ends recording.
    pub fn loss_words(&self) -> [&'static AtomicU32; 2] {
        [self.owner.word(), self.owner.lost()]
    }

    /// Whether everything that this thread has read of the shared memory so far came from that memory, and not from the
    /// replacement by a signal handler.
    pub(super) fn was_read_from_memory(&self) -> bool {
        core::sync::atomic::fence(Ordering::Acquire);
        self.owner.lost().load(Ordering::Relaxed) == 0
    }

    pub(super) fn file(&self) -> io::Result<&CaptureFile> {
        let none = || io::Error::from_raw_os_error(libc::EBADF);
        self.file.get().ok_or_else(none)
    }

    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Run,
            1 => Phase::Pause,
            2 => Phase::Stop,
            _ => Phase::Close,
        }
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::Release);
        self.backpressure.wake_drain();
        self.stored.wake();
    }

    /// Records that the drain has moved all records from before this phase.
    pub(super) fn flushed(&self, phase: Phase) {
        let flushed = phase as u32 + 1;
        if self.flushed.swap(flushed, Ordering::AcqRel) != flushed {
            self.stored.wake();
        }
    }

    pub(super) fn is_flushed(&self, phase: Phase) -> bool {
        self.flushed.load(Ordering::Acquire) > phase as u32
    }

    /// Whether this process opened the capture and records: false in a forked child, and after recording has ended. One
    /// load.
    #[inline]
    pub fn is_own_process(&self) -> bool {
        self.owner.records()
    }

    /// Whether this process opened the capture and is not a forked child, even if it no longer records.
    pub fn is_of_this_process(&self) -> bool {
        self.owner.is_this_process()
    }

    /// Why recording ended before the process did.
    pub fn ended(&self) -> Option<Ended> {
        let reasons = [
            Ended::HeldTooLong,
            Ended::MemoryGone,
            Ended::NoFile,
            Ended::NoMemory,
        ];
        let ended = self.ended.load(Ordering::Acquire);
        reasons.into_iter().find(|reason| *reason as u8 == ended)
    }

    /// Ends recording permanently: the first reason counts.
    #[cold]
    pub fn abandon(&self, reason: Ended) -> Lost {
        let swap =
            self.ended
                .compare_exchange(0, reason as u8, Ordering::AcqRel, Ordering::Relaxed);
        if swap.is_ok() {
            self.owner.end();
            self.backpressure.give_up();
        }
        Lost::Ended
    }

    /// The figures of a device and level: consistent with each other, and zeros for a device or level without counters
    /// (ordinals above 62).
    pub fn counters(&self, device: DeviceOrdinal, level: Level) -> CounterValues {
        layout::row_number(device, level)
            .and_then(|number| self.rows.get(number)?.lock(threads::own()))
            .map(|row| row.values())
            .unwrap_or_default()
    }

    /// Live bytes at a level of a device now; 0 without counters.
    #[inline]
    pub fn live(&self, device: DeviceOrdinal, level: Level) -> u64 {
        layout::row_number(device, level)
            .and_then(|number| self.rows.get(number))
            .map_or(0, rows::Row::live)
    }

    /// Events lost so far.
    pub fn events_lost(&self) -> u64 {
        self.losses.events()
    }

    /// Makes room for a thread that waits for it, or wakes the drain to make some.
    pub(super) fn nudge(&self) -> impl Fn() {
        || match self.ring.backed() {
            Some(_) => self.back_more(),
            None => self.backpressure.wake_drain(),
        }
    }

    /// Wakes the drain when the record is the first in another quarter of the ring.
    #[inline(always)]
    pub(super) fn wake_drain(&self, seq: u64, slots: u64) {
        if seq & (self.quarter - 1) >= self.quarter.saturating_sub(slots) {
            self.backpressure.wake_drain();
        }
    }
}
