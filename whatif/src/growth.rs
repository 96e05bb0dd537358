//! Growth of the memory outside PyTorch's pool that does not fit on the card.

use gpumem_capture::{Event, EventFlags, EventKind, Level, PlacementId};

/// The driver's result code for out of memory.
pub(crate) const OUT_OF_MEMORY: u64 = 2;

/// Events of a device that took memory, in order.
#[derive(Debug, Default)]
pub(crate) struct Growth(Vec<Event>);

impl Growth {
    /// Takes in an event that does not belong to the pool.
    pub(crate) fn see(&mut self, event: &Event) {
        let takes = match event.kind {
            EventKind::ALLOC | EventKind::RESIZE => event.level == Level::PHYSICAL,
            // The memory of code may be read after the code was loaded.
            kind => kind == EventKind::MODULE_LOAD,
        };
        if takes {
            self.0.push(*event);
        }
    }

    /// Drops the events, because all of them fitted.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The events that report that so many bytes did not fit, at the time of `by`. The contexts and code that were too
    /// large are undone.
    pub(crate) fn refused(&mut self, bytes: u64, by: &Event) -> Vec<Event> {
        let newest = self.0.last().copied().unwrap_or(*by);
        let sized = self.0.drain(..).rev();
        let undone = sized.filter(|event| event.kind == EventKind::RESIZE);
        let mut events: Vec<Event> = undone
            .map(|event| Event {
                time: by.time,
                bytes: event.aux,
                aux: event.bytes,
                ..event
            })
            .collect();
        let (level, aux, flags) = match newest.kind {
            EventKind::RESIZE => {
                let code = EventFlags(newest.flags.0 & EventFlags::MODULE.0);
                (Level::PHYSICAL, 0, code)
            }
            EventKind::MODULE_LOAD => (Level::PHYSICAL, 0, EventFlags::MODULE),
            _ => (Level::DRIVER, OUT_OF_MEMORY, EventFlags::NONE),
        };
        events.push(Event {
            kind: EventKind::OUT_OF_MEMORY,
            time: by.time,
            ptr: 0,
            bytes,
            aux,
            level,
            flags,
            placement: PlacementId::default(),
            slack: 0,
            ..newest
        });
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, bytes: u64, aux: u64) -> Event {
        Event {
            kind,
            bytes,
            aux,
            level: Level::PHYSICAL,
            flags: EventFlags::MODULE,
            ..Event::default()
        }
    }

    #[test]
    fn code_without_room_is_undone_and_refused() {
        let mut growth = Growth::default();
        growth.see(&event(EventKind::RESIZE, 8, 0));
        growth.clear();
        growth.see(&event(EventKind::RESIZE, 4, 0));
        growth.see(&event(EventKind::RESIZE, 6, 4));
        let events = growth.refused(6, &Event::default());
        let found: Vec<_> = events
            .iter()
            .map(|of| (of.kind, of.bytes, of.aux))
            .collect();
        let expected = [
            (EventKind::RESIZE, 4, 6),
            (EventKind::RESIZE, 0, 4),
            (EventKind::OUT_OF_MEMORY, 6, 0),
        ];
        assert_eq!(found, expected);
    }
}
