//! Contexts: which exist, and their ends, which free everything they own.

use std::collections::BTreeSet;

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Level};

use crate::state::context::{Context, ContextState, Ending};
use crate::state::origin::Origin;
use crate::state::pending::{Pending, Then, Undo};
use crate::tracker::Tracker;

impl Tracker {
    /// Records a context that the program created, or a primary context that was activated or found in use. `caller` is
    /// the return address of the call.
    pub fn context_made(
        &mut self,
        context: u64,
        device: DeviceOrdinal,
        is_created: bool,
        caller: u64,
        origin: Origin,
    ) {
        if !is_created {
            let is_back = |of: &Context| of.device == device && of.state == ContextState::Inactive;
            self.contexts.retain(|_, of| !is_back(of));
            self.count_inactive();
        }
        let made = Context {
            device,
            state: ContextState::Live,
            is_created,
            attached: 0,
        };
        self.contexts.insert(context, made);
        self.context_event(EventKind::CONTEXT, context, device, caller, origin);
    }

    /// Records a primary context that was found in use. Returns whether it was unknown before; only then is it
    /// recorded.
    pub fn context_found(
        &mut self,
        context: u64,
        device: DeviceOrdinal,
        caller: u64,
        origin: Origin,
    ) -> bool {
        let is_new = !self.knows_context(context);
        if is_new {
            self.context_made(context, device, false, caller, origin);
        }
        is_new
    }

    /// Records a green context: a part of a device's multiprocessors, over the primary context.
    pub fn part_made(&mut self, part: u64, device: DeviceOrdinal, caller: u64, origin: Origin) {
        self.parts.insert(part, device);
        self.context_event(EventKind::CONTEXT, part, device, caller, origin);
    }

    /// Records the end of a green context.
    pub fn part_ended(&mut self, part: u64, origin: Origin) {
        if let Some(device) = self.parts.remove(&part) {
            self.context_event(EventKind::CONTEXT_END, part, device, 0, origin);
        }
    }

    /// The device of a green context.
    pub fn part_device(&self, part: u64) -> Option<DeviceOrdinal> {
        self.parts.get(&part).copied()
    }

    /// Whether a context's creation is recorded and its end is not.
    pub fn knows_context(&self, context: u64) -> bool {
        let known = self.contexts.get(&context);
        known.is_some_and(|known| known.state != ContextState::Inactive)
    }

    /// The number of contexts that have ended. A known context stays known as long as this does not change.
    pub fn context_ends(&self) -> u64 {
        self.context_ends
    }

    /// The device of a context that the program created and that has not started to end.
    pub fn created_device(&self, context: u64) -> Option<DeviceOrdinal> {
        let known = self.contexts.get(&context)?;
        (known.is_created && known.is_live()).then_some(known.device)
    }

    /// Whether a device has a context that the program created.
    pub fn has_created(&self, device: DeviceOrdinal) -> bool {
        let created = |of: &Context| of.device == device && of.is_created && of.is_live();
        self.contexts.values().any(created)
    }

    /// The primary contexts that have ended and are not known to be active again, with their devices.
    pub fn inactive_contexts(&self) -> Vec<(u64, DeviceOrdinal)> {
        let all = self.contexts.iter();
        all.filter(|(_, of)| of.state == ContextState::Inactive)
            .map(|(context, of)| (*context, of.device))
            .collect()
    }

    fn count_inactive(&mut self) {
        self.inactive = self.inactive_contexts().len();
    }

    /// The only context, if no other context may have been activated without being noticed.
    pub fn only_context(&self) -> Option<(u64, DeviceOrdinal)> {
        let mut all = self.contexts.iter();
        let (context, only) = all.next().filter(|_| all.next().is_none())?;
        only.is_live().then_some((*context, only.device))
    }

    /// The device of a context that was seen and has not ended.
    pub fn device_of(&self, context: u64) -> Option<DeviceOrdinal> {
        let known = self.contexts.get(&context)?;
        known.is_live().then_some(known.device)
    }

    /// Whether any context was seen on a device and has not ended.
    pub fn has_context(&self, device: DeviceOrdinal) -> bool {
        self.context_on(device).is_some()
    }

    pub(crate) fn context_on(&self, device: DeviceOrdinal) -> Option<u64> {
        let mut all = self.contexts.iter();
        let on = all.find(|(_, of)| of.device == device && of.is_live());
        on.map(|(context, _)| *context)
    }

    /// Adds a reference to a context.
    pub fn attached(&mut self, context: u64) {
        if let Some(known) = self.contexts.get_mut(&context) {
            known.attached += 1;
        }
    }

    /// Removes a reference.
    pub fn detached(&mut self, context: u64) {
        if let Some(known) = self.contexts.get_mut(&context) {
            known.attached = known.attached.saturating_sub(1);
        }
    }

    /// Whether a context has a reference beyond its creation.
    pub fn is_attached(&self, context: u64) -> bool {
        let known = self.contexts.get(&context);
        known.is_some_and(|known| known.attached != 0)
    }

    /// Records that the primary context of a device is about to end, or has ended, with everything it owns.
    pub fn primary_ending(&mut self, device: DeviceOrdinal, origin: Origin) -> Pending {
        let is_last = !self.has_created(device);
        let ending = Ending {
            context: 0,
            device,
            is_last,
        };
        self.end_context(ending, origin)
    }

    /// Records that a context of the program is about to end. `None` for an unknown handle: it may be another context,
    /// whose memory other threads use. `has_primary`: whether the device's primary context is active.
    pub fn context_ending(
        &mut self,
        context: u64,
        has_primary: bool,
        origin: Origin,
    ) -> Option<Pending> {
        let device = self.created_device(context)?;
        if let Some(known) = self.contexts.get_mut(&context) {
            known.state = ContextState::Ending;
        }
        let is_last = !has_primary && !self.has_created(device);
        let ending = Ending {
            context,
            device,
            is_last,
        };
        Some(self.end_context(ending, origin))
    }

    /// Records the end of a context whose creation was not seen. Returns its device, if it was seen in use.
    pub fn unknown_context_ended(&mut self, context: u64, origin: Origin) -> DeviceOrdinal {
        let known = self.contexts.get(&context);
        let device = known.map_or(DeviceOrdinal::NONE, |known| known.device);
        let ending = Ending {
            context,
            device,
            is_last: false,
        };
        let _ = self.end_context(ending, origin);
        self.context_ended(ending, origin);
        device
    }

    fn end_context(&mut self, ending: Ending, origin: Origin) -> Pending {
        let Ending {
            context,
            device,
            is_last,
        } = ending;
        let others = self.others_than_primary(device);
        let owns = |owner: u64| match context {
            0 => !others.contains(&owner),
            _ => owner == context,
        };
        let gone = self.blocks.owned(|of, owner| match owner {
            0 => is_last && of == device,
            _ => owns(owner) && (context != 0 || of == device),
        });
        let mut pending = Pending::default();
        for key in gone {
            self.release(key, EventFlags::RESET, origin, &mut pending);
        }
        let reserved = self.contexts_ending(device, owns, origin);
        for (one, known) in &mut self.contexts {
            if known.device == device && known.is_live() && owns(*one) {
                known.state = ContextState::Ending;
            }
        }
        pending.push(Undo::Reserved(reserved));
        pending.push(Undo::Context(ending));
        pending.then = Some(Then::EndContext(ending));
        pending
    }

    /// Everything except the primary context of a device and its green contexts: the contexts that the program created,
    /// and all contexts of other devices.
    fn others_than_primary(&self, device: DeviceOrdinal) -> BTreeSet<u64> {
        let all = self
            .contexts
            .iter()
            .map(|(context, of)| (context, of.device));
        let all = all.chain(self.parts.iter().map(|(part, of)| (part, *of)));
        let elsewhere = all.filter(|(_, of)| *of != device);
        let elsewhere = elsewhere.map(|(context, _)| *context);
        elsewhere.chain(self.created()).collect()
    }

    /// The contexts that the program created and that have not started to end.
    fn created(&self) -> BTreeSet<u64> {
        let all = self.contexts.iter();
        let created = all.filter(|(_, of)| of.is_created && of.is_live());
        created.map(|(context, _)| *context).collect()
    }

    /// Restores a context whose end failed.
    pub(crate) fn restore_context(&mut self, ending: &Ending) {
        for (context, known) in &mut self.contexts {
            let is_it = match ending.context {
                0 => known.device == ending.device && !known.is_created,
                of => *context == of,
            };
            if is_it && known.state == ContextState::Ending {
                known.state = ContextState::Live;
            }
        }
    }

    pub(crate) fn context_ended(&mut self, ending: Ending, origin: Origin) {
        let Ending {
            context,
            device,
            is_last,
        } = ending;
        let origin = origin.without_stacks();
        if is_last {
            self.forget_handles(device, origin);
        }
        let created = self.created();
        self.end_aliases(
            |alias| match context {
                0 => {
                    alias.device == device
                        && alias.context != 0
                        && !created.contains(&alias.context)
                }
                _ => alias.context == context,
            },
            origin,
        );
        self.contexts.remove(&context);
        self.context_ends += 1;
        if context == 0 {
            // The end of a primary context does not include its handle: it is the context that the program did not
            // create.
            for known in self.contexts.values_mut() {
                if known.device == device && !known.is_created {
                    known.state = ContextState::Inactive;
                    known.attached = 0;
                }
            }
            self.count_inactive();
        }
        self.push(Event {
            ptr: context,
            device,
            flags: EventFlags::RESET,
            ..origin.event(EventKind::CONTEXT_END, Level::DRIVER)
        });
    }

    fn context_event(
        &mut self,
        kind: EventKind,
        context: u64,
        device: DeviceOrdinal,
        caller: u64,
        origin: Origin,
    ) {
        self.push(Event {
            ptr: context,
            aux: caller,
            device,
            ..origin.event(kind, Level::DRIVER)
        });
    }
}
