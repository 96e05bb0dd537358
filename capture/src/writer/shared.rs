//! An open capture, and what all of the writer's files do with it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

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
use crate::ring::Ring;
use crate::{CounterValues, DeviceOrdinal, Level, Nanos, layout};

/// An open capture. Lives as long as the process.
#[repr(C)]
pub struct Writer {
    // What each event looks at comes first, in as few cache lines as it can.
    pub(super) ring: Ring<'static>,
    pub(super) owner: Owner,
    pub(super) rows: Rows,
    /// Copies for whoever reads the capture.
    pub(super) head: &'static Head,
    /// Producers wake the drain when they cross a multiple of this many slots.
    pub(super) quarter: u64,
    pub(super) clock: Clock,
    pub(super) backpressure: Backpressure,
    pub(super) losses: Losses,
    /// Rows in which something is counted.
    pub(super) used: Used,
    /// Why recording ended, if it did before the process: [`Ended`]; 0.
    pub(super) ended: AtomicU8,
    pub(super) header: StaticHeader,
    pub(super) memory: Memory,
    /// Whether the drain writes to the file itself: the ring lies in it.
    pub(super) is_direct: bool,
    pub(super) file: OnceLock<CaptureFile>,
    /// What the drain has made for the file.
    pub(super) queue: Queue,
    /// Every record before this is committed.
    pub(super) known: AtomicU64,
    /// What the threads are to do: [`Phase`].
    pub(super) phase: AtomicU32,
    /// Up to which phase the drain has moved all that there was: one more than its number.
    pub(super) flushed: AtomicU32,
    /// Held by the one thread that drains.
    pub(super) draining: Mutex<Drain>,
    /// Held by the one thread that writes the file.
    pub(super) storing: Mutex<Option<store_state::State>>,
    pub(super) stored: Stored,
    /// Held while the counters are put into the head, and while it is copied: the place they are of.
    pub(super) publishing: Mutex<u64>,
}

impl Writer {
    /// The time now, as events carry it: in steps of 256 ns, less than an event takes. What lies below is
    /// noise, and finer steps take more of the disk: docs/measured/analyzer.md.
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

    /// What stands for now where the head says when something was: the same in every run for records that another
    /// process made.
    pub(super) fn stamp(&self) -> u64 {
        match self.header.pid {
            0 => 0,
            _ => self.now().0,
        }
    }

    /// Where the capture is, absolute; None: it has no file yet.
    pub fn path(&self) -> Option<&Path> {
        self.file.get().map(CaptureFile::path)
    }

    /// Where the ring is, if it is in a file of its own.
    pub fn ring_path(&self) -> Option<&Path> {
        self.header.ring_path()
    }

    /// The ring's memory as a file, for another process to hold open: what is in it then outlives this one wherever it
    /// lies. None if the ring has no file of its own. To be called by the thread that began the capture.
    ///
    /// # Errors
    /// What the system answers.
    pub fn ring_handle(&self) -> Option<io::Result<File>> {
        self.memory.handle()
    }

    /// Why the ring is not in the place that was wanted first, if so.
    pub fn ring_fell_back(&self) -> Option<&str> {
        self.memory.fell_back.as_deref()
    }

    /// The mapped memory that others can reach, and how many bytes it has; none if it is this process's own.
    pub fn shared_memory(&self) -> Option<(*mut u8, usize)> {
        let memory = &self.memory;
        let bytes = memory.ring_bytes + memory.queue_bytes;
        memory.is_shared.then_some((memory.base, bytes))
    }

    /// Two words of this process's own memory, for a signal handler that puts other memory in the place of
    /// [`Writer::shared_memory`]. Before it does, it stores 1 in the second, which says that the memory is lost, and then
    /// 0 in the first, which ends recording.
    pub fn loss_words(&self) -> [&'static AtomicU32; 2] {
        [self.owner.word(), self.owner.lost()]
    }

    /// Whether all that this thread has read of the shared memory so far was read from that memory, and not from what a
    /// signal handler has put in its place.
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

    /// The drain has moved all that there was when this phase began.
    pub(super) fn flushed(&self, phase: Phase) {
        let flushed = phase as u32 + 1;
        if self.flushed.swap(flushed, Ordering::AcqRel) != flushed {
            self.stored.wake();
        }
    }

    pub(super) fn is_flushed(&self, phase: Phase) -> bool {
        self.flushed.load(Ordering::Acquire) > phase as u32
    }

    /// Whether this process opened the capture and records: not a forked child of it, and not after recording has
    /// ended. One load.
    #[inline]
    pub fn is_own_process(&self) -> bool {
        self.owner.records()
    }

    /// Whether this process opened the capture, and is not a forked child of it, whether or not it still records.
    pub fn is_of_this_process(&self) -> bool {
        self.owner.is_this_process()
    }

    /// Why recording ended before the process did.
    pub fn ended(&self) -> Option<Ended> {
        let reasons = [Ended::HeldTooLong, Ended::MemoryGone, Ended::NoFile];
        let ended = self.ended.load(Ordering::Acquire);
        reasons.into_iter().find(|reason| *reason as u8 == ended)
    }

    /// Ends recording for good: the first reason counts.
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

    /// The figures of a device and level: consistent with one another, and zeros for a device or level
    /// that has no counters (ordinals above 62).
    pub fn counters(&self, device: DeviceOrdinal, level: Level) -> CounterValues {
        layout::row_number(device, level)
            .and_then(|number| self.rows.get(number)?.lock())
            .map(|row| row.values())
            .unwrap_or_default()
    }

    /// Bytes live at a level of a device at this moment; 0 for one that has no counters.
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

    pub(super) fn nudge(&self) -> impl Fn() {
        || self.backpressure.wake_drain()
    }

    /// Wakes the drain when the record crossed into another quarter of the ring.
    #[inline(always)]
    pub(super) fn wake_drain(&self, seq: u64, slots: u64) {
        if seq & (self.quarter - 1) >= self.quarter.saturating_sub(slots) {
            self.backpressure.wake_drain();
        }
    }
}
