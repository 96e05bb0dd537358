//! Limits of a context (`cuCtxSetLimit`) and what they cost.
//!
//! The model: a context's cost includes the limits' first values. A larger heap or printf buffer
//! costs the difference when it is set. A larger stack costs it for every thread that the device
//! can run at once, when a kernel is next launched. A smaller value gives memory back at once. All
//! of it is the context's and goes with it.

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

/// Limits that exist, with their first values (`CUlimit`: stack, printf, heap, device runtime
/// depth and launches, L2 fetch granularity, persisting L2).
const LIMITS: [(u32, usize); 7] = [
    (STACK, 1024),
    (PRINTF_FIFO, 1 << 20),
    (MALLOC_HEAP, 8 << 20),
    (3, 2),
    (4, 2048),
    (5, 64),
    (6, 0),
];

/// A limit's first value.
fn first(limit: u32) -> Answer<usize> {
    let known = LIMITS.iter().find(|(known, _)| *known == limit);
    known
        .map(|(_, first)| *first)
        .ok_or(CuError::UNSUPPORTED_LIMIT)
}

/// What a limit of `value` costs beyond its first value on a device that runs so many threads at
/// once, in whole pages.
fn cost(limit: u32, value: usize, threads: u64, page: u64) -> Answer<u64> {
    let beyond = value.saturating_sub(first(limit)?) as u64;
    let bytes = match limit {
        STACK => beyond.checked_mul(threads),
        PRINTF_FIFO | MALLOC_HEAP => Some(beyond),
        _ => Some(0),
    };
    whole_pages(bytes.ok_or(CuError::OUT_OF_MEMORY)?, page)
}

impl State {
    /// `cuCtxSetLimit`.
    pub fn set_limit(&mut self, at: Current, limit: u32, value: usize) -> Answer {
        let wanted = self.limit_cost(at, limit, value)?;
        let held = self.limit_bytes(at, limit)?;
        // A stack grows with the next launch.
        if limit != STACK || wanted < held {
            self.pay_for_limit(at, limit, wanted)?;
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

    /// What a launch does first: the stacks become as large as the limit says.
    pub fn grow_stack(&mut self, at: Current) -> Answer {
        let value = self.limit(at, STACK)?;
        let wanted = self.limit_cost(at, STACK, value)?;
        self.pay_for_limit(at, STACK, wanted)
    }

    fn limit_cost(&self, at: Current, limit: u32, value: usize) -> Answer<u64> {
        let device = self.machine.visible_device(at.device);
        let threads = device.ok_or(CuError::INVALID_DEVICE)?.threads();
        cost(limit, value, threads, self.machine.page_bytes)
    }

    fn limit_bytes(&self, at: Current, limit: u32) -> Answer<u64> {
        let held = self.contexts.get(at.context)?.limit_bytes.get(&limit);
        Ok(held.copied().unwrap_or(0))
    }

    fn pay_for_limit(&mut self, at: Current, limit: u32, wanted: u64) -> Answer {
        let held = self.limit_bytes(at, limit)?;
        if wanted > held {
            self.take_held(at.device, Holding::Context, wanted - held)?;
        } else if wanted < held {
            let books = self.books.device_mut(at.device);
            books.give_held(Holding::Context, held - wanted);
        }
        let context = self.contexts.get_mut(at.context)?;
        context.limit_bytes.insert(limit, wanted);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_cost_what_is_beyond_their_first_value() {
        let page = 2 << 20;
        let cost = |limit, value| super::cost(limit, value, 132 * 2048, page);
        assert_eq!(cost(MALLOC_HEAP, 8 << 20), Ok(0));
        assert_eq!(cost(MALLOC_HEAP, 1), Ok(0));
        assert_eq!(cost(MALLOC_HEAP, (8 << 20) + 1), Ok(page));
        assert_eq!(cost(PRINTF_FIFO, 5 << 20), Ok(4 << 20));
        assert_eq!(cost(STACK, 2048), Ok(1024 * 132 * 2048));
        assert_eq!(super::cost(STACK, 2048, 40 * 1024, page), Ok(40 << 20));
        assert_eq!(cost(6, 1 << 30), Ok(0));
        assert_eq!(cost(STACK, usize::MAX), Err(CuError::OUT_OF_MEMORY));
        assert_eq!(cost(7, 0), Err(CuError::UNSUPPORTED_LIMIT));
    }
}
