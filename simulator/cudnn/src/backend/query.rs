//! `cudnnBackendGetAttribute`: attributes that were set, and computed ones.

use super::attribute::{DESCRIPTOR, ENGINECFG, ENGINEHEUR, GRAPH, PLAN, element_bytes, rule};
use super::descriptor::{Finalized, Value};
use super::graph::{configurations, engines, needs};
use super::store::{Entry, entries, finalized, unknown};
use crate::array::{count, read, write};
use crate::status::{Done, Status, require, status};
use gpumem_sim_client::ffi::{Address, Handle, Out};
use std::sync::Arc;

/// `CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG`.
pub const PLAN_CONFIGURATION: u32 = 401;

/// The workspace that a plan or configuration requests.
fn workspace(configuration: Option<&Arc<Finalized>>) -> Option<Value> {
    let needs = needs(configuration?);
    let bytes = needs.workspace as i64;
    Some(Value::Plain(1, bytes.to_ne_bytes().to_vec()))
}

/// An attribute that no caller sets.
fn computed(descriptor: &Arc<Finalized>, attribute: u32) -> Done<Option<Value>> {
    Ok(match (descriptor.kind, attribute) {
        (ENGINEHEUR, 202) => match descriptor.child(201) {
            Some(graph) => Some(Value::Children(configurations(graph)?)),
            None => None,
        },
        (ENGINECFG, 303) => workspace(Some(descriptor)),
        // Programs reject a configuration without this attribute.
        (ENGINECFG, 304) => Some(Value::Plain(1, 0_i32.to_ne_bytes().to_vec())),
        (PLAN, 402) => workspace(descriptor.child(PLAN_CONFIGURATION)),
        (GRAPH, 802) => Some(Value::Plain(1, engines(descriptor).to_ne_bytes().to_vec())),
        // Plans cannot be serialised as JSON, so programs cannot store them in a file.
        (PLAN, 405) => return Err(Status::NOT_SUPPORTED),
        _ => None,
    })
}

/// Replaces the caller's descriptors with those that an attribute holds.
fn hand_out(children: &[Arc<Finalized>], wanted: usize, to: Address) -> Done<usize> {
    let given = wanted.min(children.len());
    let handles = read::<usize>(to, given)?;
    let mut entries = entries();
    for (handle, child) in handles.iter().zip(children) {
        let entry = entries.get(handle).ok_or(unknown(*handle))?;
        require(
            entry.kind() == child.kind,
            Status::BAD_PARAM_DESCRIPTOR_TYPE,
        )?;
    }
    for (handle, child) in handles.into_iter().zip(children) {
        entries.insert(handle, Entry::Finalized(Arc::clone(child)));
    }
    Ok(given)
}

/// `cudnnBackendGetAttribute`. Without an array it returns the number of elements. With an array it
/// writes as many elements as fit, and returns their number. Descriptors in the array are the
/// caller's: each becomes the one that the attribute holds.
pub fn get_attribute(
    handle: Handle,
    attribute: u32,
    element: u32,
    wanted: i64,
    told: Out<i64>,
    to: Address,
) -> Status {
    let get = || -> Done {
        let descriptor = finalized(&entries(), handle)?;
        let rule = rule(descriptor.kind, attribute).ok_or(Status::BAD_PARAM)?;
        require(wanted >= 0, Status::BAD_PARAM)?;
        let bytes = element_bytes(element).ok_or(Status::BAD_PARAM_ATTRIBUTE_TYPE)?;
        let expected = rule.element.unwrap_or(element);
        require(expected == element, Status::BAD_PARAM_ATTRIBUTE_TYPE)?;
        let wanted = if to == 0 { 0 } else { count(wanted)? };
        let value = match computed(&descriptor, attribute)? {
            Some(value) => Some(value),
            None => descriptor.value(attribute).cloned(),
        };
        let elements = match value {
            // Notes and knobs, which do not exist here, and unset attributes, whose defaults are
            // not modelled.
            None => 0,
            Some(Value::Plain(elements, _)) if wanted == 0 => elements,
            Some(Value::Children(children)) if wanted == 0 => children.len(),
            Some(Value::Plain(elements, all)) => {
                require(
                    elements * bytes == all.len(),
                    Status::BAD_PARAM_ATTRIBUTE_TYPE,
                )?;
                let given = wanted.min(elements);
                write(to, &all[..given * bytes]);
                given
            }
            Some(Value::Children(children)) => {
                require(element == DESCRIPTOR, Status::BAD_PARAM_ATTRIBUTE_TYPE)?;
                hand_out(&children, wanted, to)?
            }
        };
        told.put_if_asked(elements as i64);
        Ok(())
    };
    status(get())
}
