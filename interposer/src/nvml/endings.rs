//! What contexts and modules held, as they end: charged by [`super::implicit`], in whole until then.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventFlags};

use super::implicit::{cause, forget_parts, holding};
use super::remainder::{self, Ended};
use crate::call::Call;
use crate::lock::{Guard, Lock};
use crate::physical::holdings::{self, Holding, Kind};
use crate::session::{self, Session};
use crate::thread::Thread;

/// A module or library in one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loaded {
    pub(super) module: u64,
    pub(super) context: u64,
}

/// What was charged to modules and libraries, by the holdings' numbers.
pub(super) type Charged = BTreeMap<u64, Loaded>;

pub(super) fn charged() -> Guard<'static, Charged> {
    static CHARGED: Lock<Charged> = Lock::new(BTreeMap::new());
    CHARGED.lock()
}

/// The number of the holding of a module or library in a context: its handle or, of a library that holds
/// memory of another context already, one of both.
pub(super) fn number_of(charged: &mut Charged, loaded: Loaded) -> u64 {
    let Loaded { module, context } = loaded;
    if *charged.entry(module).or_insert(loaded) == loaded {
        return module;
    }
    // Handles are addresses: no module has an odd one.
    let both = module ^ context.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    charged.insert(both, loaded);
    both
}

/// What something held that is about to end, should it not end.
pub(crate) struct Held {
    all: Vec<One>,
    unsure: Ended,
}

struct One {
    device: DeviceOrdinal,
    holding: Holding,
    bytes: u64,
    /// Of which module in which context it is.
    loaded: Option<Loaded>,
}

/// A module or library is about to be unloaded.
pub(crate) fn unloading(thread: &Thread, call: &Call, module: u64) -> Option<Held> {
    let session = session::session()?;
    forget_parts(module);
    let of_module = |(number, loaded): (&u64, &Loaded)| {
        (loaded.module == module).then_some(holding(Kind::Module, *number))
    };
    let gone: Vec<_> = charged().iter().filter_map(of_module).collect();
    let unsure = remainder::ended(|_, holding, _| gone.contains(&holding));
    Some(end(session, thread, call, &gone, unsure))
}

/// The contexts of `device` that `wanted` picks are about to end, or have ended, with their modules.
pub(crate) fn ending(
    thread: &Thread,
    call: &Call,
    device: DeviceOrdinal,
    wanted: impl Fn(u64) -> bool,
) -> Option<Held> {
    let session = session::session()?;
    let modules = charged().clone();
    // First: until then it may be put right.
    let unsure = remainder::ended(|of, holding, context| {
        of == device
            && match holding.kind {
                Kind::Context => wanted(holding.ptr),
                Kind::Module => wanted(context),
                Kind::Pool | Kind::Graphs => false,
            }
    });
    let mut all = holdings::of_device(device, |kind| matches!(kind, Kind::Context | Kind::Module));
    all.retain(|holding| match holding.kind {
        Kind::Module => modules
            .get(&holding.ptr)
            .is_none_or(|loaded| wanted(loaded.context)),
        _ => wanted(holding.ptr),
    });
    Some(end(session, thread, call, &all, unsure))
}

fn end(session: &Session, thread: &Thread, call: &Call, all: &[Holding], unsure: Ended) -> Held {
    let cause = cause(session, thread, call, false);
    let mut held = Vec::with_capacity(all.len());
    for holding in all.iter().copied() {
        let loaded = match holding.kind {
            Kind::Module => charged().remove(&holding.ptr),
            _ => None,
        };
        if let Some((device, bytes)) = holdings::get(holding) {
            held.push(One {
                device,
                holding,
                bytes,
                loaded,
            });
            holdings::resize(&cause, device, holding, EventFlags::NONE, |_| 0);
        }
    }
    Held { all: held, unsure }
}

/// It did not end after all.
pub(crate) fn restore(thread: &Thread, call: &Call, held: Held) {
    let Some(session) = session::session() else {
        return;
    };
    let cause = cause(session, thread, call, false);
    remainder::restore(held.unsure);
    for one in held.all {
        if let Some(loaded) = one.loaded {
            charged().insert(one.holding.ptr, loaded);
        }
        holdings::resize(&cause, one.device, one.holding, EventFlags::NONE, |_| {
            one.bytes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_has_a_number_in_each_context() {
        let mut charged = Charged::new();
        let loaded = |context| Loaded {
            module: 0x5000,
            context,
        };
        assert_eq!(number_of(&mut charged, loaded(0x10)), 0x5000);
        let second = number_of(&mut charged, loaded(0x20));
        let third = number_of(&mut charged, loaded(0x30));
        assert!(second != 0x5000 && third != 0x5000 && second != third);
        assert_eq!(number_of(&mut charged, loaded(0x10)), 0x5000);
        assert_eq!(number_of(&mut charged, loaded(0x20)), second);
        let of_library = charged.values().filter(|loaded| loaded.module == 0x5000);
        assert_eq!(of_library.count(), 3);
    }
}
