//! Assumptions where the capture lacks requests, or the times at which blocks that other streams used were back.

use gpumem_capture::{AllocatorCall, Definition, DeviceOrdinal, Event, EventKind, Level};

use crate::assumed::Assumed;
use crate::events;
use crate::late::{Late, Waiting};
use crate::layout::Layout;
use crate::rounding::Rounding;
use crate::survey::Survey;

/// The assumptions for one device.
#[derive(Debug)]
pub(crate) struct Unknown {
    device: DeviceOrdinal,
    assumed: Assumed,
    has_releases: bool,
    rounding: Rounding,
    /// `None` if it is not needed or unknown.
    layout: Option<Layout>,
    late: Late,
    /// Allocations with an unknown request.
    pub(crate) sizes: u64,
    /// Blocks for which the time of their return is unknown.
    pub(crate) waits: u64,
}

impl Unknown {
    pub(crate) fn new(device: DeviceOrdinal, survey: &Survey, assumed: Assumed) -> Self {
        let has_layout = assumed.has(Assumed::LEAST) && survey.has_blocks;
        Self {
            device,
            assumed,
            has_releases: survey.has_releases && !assumed.has(Assumed::NO_RELEASES),
            rounding: survey.rounding.clone(),
            layout: has_layout.then(|| Layout::new(device)),
            late: Late::default(),
            sizes: 0,
            waits: 0,
        }
    }

    /// Whether streams have finished with blocks only when this reports it; else they finish at once.
    pub(crate) fn holds(&self) -> bool {
        self.has_releases || self.assumed.has(Assumed::LATE)
    }

    pub(crate) fn define(&mut self, definition: &Definition) {
        if let Some(layout) = &mut self.layout {
            layout.define(definition);
        }
    }

    /// An event of any device and level.
    pub(crate) fn see(&mut self, event: &Event) {
        if let Some(layout) = &mut self.layout {
            layout.see(event);
        }
        let is_given_back = event.level == Level::DRIVER && event.kind == EventKind::FREE;
        if is_given_back && event.device == self.device {
            self.reused(event);
        }
    }

    /// Takes in settings of the program.
    pub(crate) fn set(&mut self, text: &str) {
        self.rounding.set(text);
    }

    fn reused(&mut self, event: &Event) {
        if !self.has_releases {
            while let Some(waiting) = self.late.reused(event.ptr, event.bytes) {
                through(waiting);
            }
        }
    }

    /// A block is allocated; returns the requested bytes.
    pub(crate) fn request(&mut self, event: &Event) -> u64 {
        self.reused(event);
        let layout = self.layout.as_mut();
        let is_split = layout.is_some_and(|layout| layout.take(event.ptr, event.bytes));
        let is_unknown = event.slack == Event::SLACK_UNKNOWN;
        if !is_unknown && !self.assumed.has(Assumed::NO_REQUESTS) {
            return event.bytes.saturating_sub(event.slack.into());
        }
        self.sizes += 1;
        match self.assumed.has(Assumed::LEAST) {
            true => self.rounding.least(event.bytes, is_split),
            false => event.bytes,
        }
    }

    /// A block is used on a stream other than its own.
    pub(crate) fn used(&mut self, ptr: u64, stream: u64) {
        self.late.used(ptr, stream);
    }

    /// A block is freed.
    pub(crate) fn freed(&mut self, seq: u64, ptr: u64, bytes: u64) {
        let waits = self.late.freed(ptr, bytes, seq);
        self.waits += u64::from(waits && !self.has_releases);
        match &mut self.layout {
            Some(layout) if !waits => layout.free(ptr),
            _ => {}
        }
    }

    /// All streams were synchronized, for example by a failure.
    pub(crate) fn synchronized(&mut self) {
        while let Some(waiting) = self.late.synchronized() {
            through(waiting);
        }
    }

    /// Whether a call of the allocator is treated as unknown.
    pub(crate) fn hides(&self, call: AllocatorCall) -> bool {
        match call {
            AllocatorCall::RELEASED => self.assumed.has(Assumed::NO_RELEASES),
            AllocatorCall::RECORD_STREAM => self.assumed.has(Assumed::NO_USES),
            _ => false,
        }
    }

    /// A block is back in the pool.
    pub(crate) fn released(&mut self, ptr: u64) {
        if let Some(waiting) = self.late.released(ptr) {
            through(waiting);
        }
        if let Some(layout) = &mut self.layout {
            layout.free(ptr);
        }
    }
}

fn through(waiting: Waiting) {
    for stream in waiting.streams {
        events::through(stream, waiting.freed);
    }
}
