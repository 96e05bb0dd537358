//! The profiler interface: a subscription, results by name, and no records.

use gpumem_sim_client::ffi::{Address, Answer, Handle, Out};
use gpumem_sim_client::release;
use std::cell::RefCell;
use std::ffi::{CStr, c_char};

/// `CUptiResult`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct CuptiResult(pub u32);

impl CuptiResult {
    /// Done.
    pub const SUCCESS: Self = Self(0);
    /// A parameter is wrong.
    pub const INVALID_PARAMETER: Self = Self(1);
    /// There are no more records in a buffer.
    pub const MAX_LIMIT_REACHED: Self = Self(12);
    /// Nothing was pushed that could be popped.
    pub const QUEUE_EMPTY: Self = Self(18);
    /// Not simulated.
    pub const NOT_SUPPORTED: Self = Self(27);
}

/// Codes and their names: those that this library returns.
const NAMES: &[(u32, &CStr)] = &[
    (0, c"CUPTI_SUCCESS"),
    (1, c"CUPTI_ERROR_INVALID_PARAMETER"),
    (12, c"CUPTI_ERROR_MAX_LIMIT_REACHED"),
    (18, c"CUPTI_ERROR_QUEUE_EMPTY"),
    (27, c"CUPTI_ERROR_NOT_SUPPORTED"),
];

/// `CUPTI_API_VERSION` of CUDA 13.2 and of 12.8.
const VERSIONS: [u32; 2] = [130_200, 26];

/// The one subscriber: any address but null.
static SUBSCRIBER: u8 = 0;

thread_local! {
    /// What this thread has pushed, by kind.
    static EXTERNAL: RefCell<Vec<(u32, u64)>> = const { RefCell::new(Vec::new()) };
}

fn result(answer: Answer) -> CuptiResult {
    match answer {
        Ok(()) => CuptiResult::SUCCESS,
        Err(_) => CuptiResult::INVALID_PARAMETER,
    }
}

/// Settings, registrations and flushes: they have no effect.
pub fn accepted() -> CuptiResult {
    CuptiResult::SUCCESS
}

/// `cuptiGetVersion`.
pub fn version(place: Out<u32>) -> CuptiResult {
    let [thirteen, twelve] = VERSIONS;
    result(place.put(release::of(twelve, thirteen)))
}

/// `cuptiSubscribe`.
pub fn subscribe(subscriber: Out<Handle>, _callback: Address, _data: Address) -> CuptiResult {
    result(subscriber.put(&raw const SUBSCRIBER as Handle))
}

/// `cuptiGetResultString`.
pub fn result_string(code: u32, place: Out<*const c_char>) -> CuptiResult {
    let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == code) else {
        return CuptiResult::INVALID_PARAMETER;
    };
    result(place.put(name.as_ptr()))
}

/// `cuptiGetCallbackName`: an empty name, because callbacks are never called.
pub fn callback_name(_domain: u32, _id: u32, place: Out<*const c_char>) -> CuptiResult {
    result(place.put(c"".as_ptr()))
}

/// `cuptiActivityGetNextRecord`: every buffer is empty.
pub fn next_record(_buffer: Address, _valid: usize, _record: Address) -> CuptiResult {
    CuptiResult::MAX_LIMIT_REACHED
}

/// `cuptiActivityGetNumDroppedRecords`.
pub fn dropped(_context: Handle, _stream: u32, place: Out<usize>) -> CuptiResult {
    result(place.put(0))
}

/// `cuptiActivityPushExternalCorrelationId`.
pub fn push_external(kind: u32, id: u64) -> CuptiResult {
    // A thread that is ending loses it, and does not read it any more.
    let _ = EXTERNAL.try_with(|all| all.borrow_mut().push((kind, id)));
    CuptiResult::SUCCESS
}

/// `cuptiActivityPopExternalCorrelationId`: the newest of this kind that the thread has pushed.
pub fn pop_external(kind: u32, last: Out<u64>) -> CuptiResult {
    let popped = EXTERNAL.try_with(|all| {
        let mut all = all.borrow_mut();
        let place = all.iter().rposition(|(of, _)| *of == kind)?;
        Some(all.remove(place).1)
    });
    let Some(id) = popped.ok().flatten() else {
        return CuptiResult::QUEUE_EMPTY;
    };
    last.put_if_asked(id);
    CuptiResult::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscriber_is_never_null() {
        let mut subscriber = 0;
        assert_eq!(
            subscribe(Out::to(&mut subscriber), 0, 0),
            CuptiResult::SUCCESS
        );
        assert_ne!(subscriber, 0);
        assert_eq!(
            subscribe(Out::NOWHERE, 0, 0),
            CuptiResult::INVALID_PARAMETER
        );
    }

    #[test]
    fn correlations_are_popped_by_kind_newest_first() {
        for (kind, id) in [(1, 10), (2, 20), (1, 11)] {
            assert_eq!(push_external(kind, id), CuptiResult::SUCCESS);
        }
        let pop = |kind| {
            let mut id = 0;
            (pop_external(kind, Out::to(&mut id)), id)
        };
        assert_eq!(pop(1), (CuptiResult::SUCCESS, 11));
        assert_eq!(pop(1), (CuptiResult::SUCCESS, 10));
        assert_eq!(pop(1), (CuptiResult::QUEUE_EMPTY, 0));
        assert_eq!(pop(2), (CuptiResult::SUCCESS, 20));
    }
}
