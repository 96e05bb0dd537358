//! Descriptors by their handles: create, set, finalize, destroy.

use super::attribute::{DESCRIPTOR, KINDS, Kind, TENSOR, VARIANT_PACK, element_bytes, rule};
use super::descriptor::{Attributes, Finalized, Value};
use super::graph::is_there;
use crate::array::{count, read};
use crate::objects::new_handle;
use crate::status::{Done, Status, pointer, require, status};
use gpumem_sim_client::ffi::{Address, Handle, Out};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The descriptor behind a handle.
#[derive(Debug)]
pub enum Entry {
    /// A descriptor that is not finalized yet.
    Open(Kind, Attributes),
    /// A finalized descriptor.
    Finalized(Arc<Finalized>),
}

impl Entry {
    /// The descriptor's kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Open(kind, _) => *kind,
            Self::Finalized(descriptor) => descriptor.kind,
        }
    }
}

/// All descriptors.
pub fn entries() -> MutexGuard<'static, BTreeMap<Handle, Entry>> {
    static ALL: Mutex<BTreeMap<Handle, Entry>> = Mutex::new(BTreeMap::new());
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `cudnnBackendCreateDescriptor`.
pub fn create(kind: Kind, place: Out<Handle>) -> Status {
    let create = || -> Done {
        require(!place.is_null(), Status::BAD_PARAM_NULL_POINTER)?;
        require(kind < KINDS, Status::NOT_SUPPORTED)?;
        let handle = new_handle();
        entries().insert(handle, Entry::Open(kind, Attributes::new()));
        pointer(place.put(handle))
    };
    status(create())
}

/// `cudnnBackendInitialize`: removes all attributes.
pub fn initialize(handle: Handle) -> Status {
    let initialize = || -> Done {
        let mut entries = entries();
        let entry = entries.get_mut(&handle).ok_or(unknown(handle))?;
        *entry = Entry::Open(entry.kind(), Attributes::new());
        Ok(())
    };
    status(initialize())
}

/// `cudnnBackendDestroyDescriptor`.
pub fn destroy(handle: Handle) -> Status {
    let gone = entries().remove(&handle);
    status(gone.map(drop).ok_or(unknown(handle)))
}

/// The status for an unknown handle.
pub fn unknown(handle: Handle) -> Status {
    match handle {
        0 => Status::BAD_PARAM_NULL_POINTER,
        _ => Status::BAD_PARAM,
    }
}

/// A finalized descriptor.
///
/// # Errors
/// A status for any other handle.
pub fn finalized(entries: &BTreeMap<Handle, Entry>, handle: Handle) -> Done<Arc<Finalized>> {
    match entries.get(&handle) {
        Some(Entry::Finalized(descriptor)) => Ok(Arc::clone(descriptor)),
        Some(Entry::Open(..)) => Err(Status::BAD_PARAM_NOT_FINALIZED),
        None => Err(unknown(handle)),
    }
}

/// `cudnnBackendSetAttribute`. Other descriptors must be finalized; they are shared from then on.
pub fn set_attribute(
    handle: Handle,
    attribute: u32,
    element: u32,
    elements: i64,
    from: Address,
) -> Status {
    let set = || -> Done {
        let mut entries = entries();
        let entry = entries.get(&handle).ok_or(unknown(handle))?;
        let Entry::Open(kind, _) = entry else {
            return Err(Status::BAD_PARAM);
        };
        let rule = rule(*kind, attribute).ok_or(Status::BAD_PARAM)?;
        let bytes = element_bytes(element).ok_or(Status::BAD_PARAM_ATTRIBUTE_TYPE)?;
        let expected = rule.element.unwrap_or(element);
        require(expected == element, Status::BAD_PARAM_ATTRIBUTE_TYPE)?;
        let elements = count(elements)?;
        require(
            (1..=rule.most).contains(&elements) && from != 0,
            Status::BAD_PARAM,
        )?;
        let value = if element == DESCRIPTOR {
            let handles = read::<usize>(from, elements)?;
            let children = handles.into_iter().map(|child| {
                let child = finalized(&entries, child)?;
                let fits = rule.child.is_none_or(|kind| kind == child.kind);
                require(fits, Status::BAD_PARAM_DESCRIPTOR_TYPE)?;
                Ok(child)
            });
            Value::Children(children.collect::<Done<_>>()?)
        } else {
            Value::Plain(elements, read::<u8>(from, elements * bytes)?)
        };
        if let Some(Entry::Open(_, attributes)) = entries.get_mut(&handle) {
            attributes.insert(attribute, value);
        }
        Ok(())
    };
    status(set())
}

/// Whether the attributes of a descriptor are consistent.
fn consistent(descriptor: &Finalized) -> bool {
    let elements = |attribute| match descriptor.value(attribute) {
        Some(Value::Plain(elements, _)) => *elements,
        _ => 0,
    };
    match descriptor.kind {
        TENSOR => elements(902) == elements(903),
        VARIANT_PACK => elements(1000) == elements(1001),
        _ => true,
    }
}

/// `cudnnBackendFinalize`.
pub fn finalize(handle: Handle) -> Status {
    let finalize = || -> Done {
        let mut entries = entries();
        let entry = entries.get_mut(&handle).ok_or(unknown(handle))?;
        let Entry::Open(kind, attributes) = entry else {
            return Err(Status::BAD_PARAM);
        };
        let descriptor = Finalized::new(*kind, attributes.clone())?;
        require(consistent(&descriptor), Status::BAD_PARAM)?;
        require(is_there(&descriptor), Status::NOT_SUPPORTED)?;
        *entry = Entry::Finalized(descriptor);
        Ok(())
    };
    status(finalize())
}
