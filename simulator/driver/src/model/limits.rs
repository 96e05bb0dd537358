//! Limits of a context (`cuCtxSetLimit`) and their cost.
//!
//! The model follows an H100 (docs/simulator.md). A context's cost includes the default limits.
//! When the stack limit is set, the context takes or frees the difference for every thread that the
//! device can run at once; a kernel that needs a larger stack raises the limit when it is launched.
//! A heap and a printf buffer cost nothing: a driver creates them for code that uses them, and code
//! is never read. The memory of the stack belongs to the context and is freed with it.

use super::State;
use super::context::Current;
use super::kind::Holding;
use super::memory::whole_pages;
use crate::ffi::{Answer, CuError};

/// `CU_LIMIT_STACK_SIZE`.
const STACK: u32 = 0;
/// `CU_LIMIT_PRINTF_FIFO_SIZE`.
const PRINTF_FIFO: u32 = 1;
/// `CU_LIMIT_MALLOC_HEAP_SIZE`.
const MALLOC_HEAP: u32 = 2;

/// Limits that exist, with their default values (`CUlimit`: stack, printf, heap, device runtime
/// depth and launches, L2 fetch granularity, persisting L2).
const LIMITS: [(u32, usize); 7] = [
    (STACK, 1024),
    (PRINTF_FIFO, (8 << 20) + (256 << 10)),
    (MALLOC_HEAP, 8 << 20),
    (3, 2),
    (4, 2048),
    (5, 64),
    (6, 0),
];

/// A limit's default value.
fn first(limit: u32) -> Answer<usize> {
    let known = LIMITS.iter().find(|(known, _)| *known == limit);
    known
        .map(|(_, first)| *first)
        .ok_or(CuError::UNSUPPORTED_LIMIT)
}

/// The cost of a stack of `value` bytes in addition to the default, on a device that runs this many
/// threads at once, in whole pages.
fn stack_cost(value: usize, threads: u64, page: u64) -> Answer<u64> {
    let beyond = value.saturating_sub(first(STACK)?) as u64;
    let bytes = beyond.checked_mul(threads);
    whole_pages(bytes.ok_or(CuError::OUT_OF_MEMORY)?, page)
}

impl State {
    /// `cuCtxSetLimit`.
    pub fn set_limit(&mut self, at: Current, limit: u32, value: usize) -> Answer {
        first(limit)?;
        if limit == STACK {
            self.pay_for_stack(at, value)?;
        }
        let context = self.contexts.get_mut(at.context)?;
        context.limits.insert(limit, value);
        Ok(())
    }

    /// `cuCtxGetLimit`.
    pub fn limit(&self, at: Current, limit: u32) -> Answer<usize> {
        let first = first(limit)?;
        let set = self.contexts.get(at.context)?.limits.get(&limit);
        Ok(set.copied().unwrap_or(first))
    }

    /// The first part of a launch: raises the limit to the kernel's need.
    pub fn need_stack(&mut self, at: Current, bytes: usize) -> Answer {
        if bytes <= self.limit(at, STACK)? {
            return Ok(());
        }
        self.set_limit(at, STACK, bytes)
    }

    fn pay_for_stack(&mut self, at: Current, value: usize) -> Answer {
        let device = self.machine.visible_device(at.device);
        let threads = device.ok_or(CuError::INVALID_DEVICE)?.threads();
        let wanted = stack_cost(value, threads, self.machine.page_bytes)?;
        let held = self.contexts.get(at.context)?.stack_bytes;
        if wanted > held {
            self.take_held(at.device, Holding::Context, wanted - held)?;
        } else {
            let books = self.books.device_mut(at.device);
            books.give_held(Holding::Context, held - wanted);
        }
        self.contexts.get_mut(at.context)?.stack_bytes = wanted;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_costs_what_is_beyond_its_first_size_for_each_thread() {
        let page = 2 << 20;
        let cost = |value| stack_cost(value, 132 * 2048, page);
        assert_eq!(cost(1), Ok(0));
        assert_eq!(cost(1024), Ok(0));
        assert_eq!(cost(2048), Ok(1024 * 132 * 2048));
        assert_eq!(stack_cost(2048, 40 * 1024, page), Ok(40 << 20));
        assert_eq!(cost(usize::MAX), Err(CuError::OUT_OF_MEMORY));
        assert_eq!(first(7), Err(CuError::UNSUPPORTED_LIMIT));
    }
}
