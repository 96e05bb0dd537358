//! Memory of streams.
//!
//! The model: a context's memory includes that of its first stream. Every other stream takes the
//! device's configured bytes, in whole pages for all streams together. The memory of a stream
//! belongs to its context: another stream uses it after the stream is destroyed, and it is freed
//! with the context.

use super::State;
use super::context::Current;
use super::kind::Holding;
use super::memory::whole_pages;
use crate::ffi::{Answer, CuError};

impl State {
    /// The first part of the creation of a stream.
    pub fn pay_for_stream(&mut self, at: Current) -> Answer {
        let streams = self.streams.iter();
        let live = streams.filter(|(_, stream)| stream.context == at.context);
        let others = live.count() as u64;
        let device = self.machine.visible_device(at.device);
        let each = device.ok_or(CuError::INVALID_DEVICE)?.stream_bytes;
        let bytes = others.checked_mul(each).ok_or(CuError::OUT_OF_MEMORY)?;
        let wanted = whole_pages(bytes, self.machine.page_bytes)?;
        let held = self.contexts.get(at.context)?.stream_bytes;
        if wanted > held {
            self.take_held(at.device, Holding::Context, wanted - held)?;
            self.contexts.get_mut(at.context)?.stream_bytes = wanted;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::api::stream;
    use crate::model::State;
    use crate::model::context::Current;
    use crate::model::kind::Holding;
    use crate::model::stream::Stream;
    use crate::model::tests::{MIB, at, machine};

    fn make(state: &mut State, at: Current) -> Option<usize> {
        state.pay_for_stream(at).ok()?;
        Some(state.streams.insert(Stream {
            context: at.context,
            device: at.device,
            flags: 0,
            priority: stream::GREATEST_PRIORITY,
            id: 0,
        }))
    }

    fn cost(state: &State) -> u64 {
        let (now, _) = state.books.device(0).holding(Holding::Context);
        now.saturating_sub(10 * MIB) / MIB
    }

    #[test]
    fn streams_cost_pages_which_later_ones_use_again() {
        let mut state = State::new(machine("64MiB"));
        state.retain_primary(0).unwrap();
        let here = at(&state, 0);
        let grown: Vec<u64> = (0..10)
            .map(|_| {
                let before = cost(&state);
                make(&mut state, here).unwrap();
                cost(&state) - before
            })
            .collect();
        assert_eq!(grown, [0, 2, 0, 0, 0, 2, 0, 0, 0, 2]);
        state.streams.retain(|_| false);
        assert_eq!(cost(&state), 6, "what is destroyed gives nothing back");
        let again: Vec<_> = (0..13).map(|_| make(&mut state, here)).collect();
        assert!(again.iter().all(Option::is_some));
        assert_eq!(cost(&state), 6, "and is used again");
        make(&mut state, here).unwrap();
        assert_eq!(cost(&state), 8);
        state.release_primary(0).unwrap().run();
        assert_eq!(state.books.device(0).physical().0, 0);
    }

    #[test]
    fn a_stream_that_has_no_room_costs_nothing() {
        let mut state = State::new(machine("13MiB"));
        state.retain_primary(0).unwrap();
        let here = at(&state, 0);
        let made = (0..8).filter_map(|_| make(&mut state, here)).count();
        assert_eq!((made, cost(&state)), (5, 2));
    }
}
