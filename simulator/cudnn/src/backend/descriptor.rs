//! Descriptors and their values.

use super::attribute::{Kind, required};
use crate::status::{Done, Status};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The value of an attribute.
#[derive(Clone, Debug)]
pub enum Value {
    /// Elements as the caller gave them: their number and their bytes.
    Plain(usize, Vec<u8>),
    /// Other descriptors.
    Children(Vec<Arc<Finalized>>),
}

/// Attributes by number.
pub type Attributes = BTreeMap<u32, Value>;

/// A finalized descriptor.
#[derive(Debug)]
pub struct Finalized {
    /// What it is.
    pub kind: Kind,
    attributes: Attributes,
    /// The depth of nesting, including this descriptor.
    depth: u32,
}

/// More levels than any graph has. Freeing a longer chain could overflow the stack.
const DEEPEST: u32 = 64;

impl Finalized {
    /// Finalizes a descriptor.
    ///
    /// # Errors
    /// `BAD_PARAM` if a required attribute is missing, or attributes are inconsistent.
    pub fn new(kind: Kind, attributes: Attributes) -> Done<Arc<Self>> {
        let complete = required(kind)
            .iter()
            .all(|number| attributes.contains_key(number));
        let children = attributes.values().filter_map(|value| match value {
            Value::Children(children) => children.iter().map(|child| child.depth).max(),
            Value::Plain(..) => None,
        });
        let depth = 1 + children.max().unwrap_or(0);
        if !complete || depth > DEEPEST {
            return Err(Status::BAD_PARAM);
        }
        Ok(Arc::new(Self {
            kind,
            attributes,
            depth,
        }))
    }

    /// An attribute.
    pub fn value(&self, attribute: u32) -> Option<&Value> {
        self.attributes.get(&attribute)
    }

    /// The descriptors that an attribute holds.
    pub fn children(&self, attribute: u32) -> &[Arc<Finalized>] {
        match self.value(attribute) {
            Some(Value::Children(children)) => children,
            _ => &[],
        }
    }

    /// The one descriptor that an attribute holds.
    pub fn child(&self, attribute: u32) -> Option<&Arc<Finalized>> {
        self.children(attribute).first()
    }

    /// The numbers of an attribute whose elements have 8 bytes.
    pub fn numbers(&self, attribute: u32) -> Vec<i64> {
        let Some(Value::Plain(_, bytes)) = self.value(attribute) else {
            return Vec::new();
        };
        let parts = bytes.chunks_exact(8);
        parts
            .filter_map(|part| Some(i64::from_ne_bytes(part.try_into().ok()?)))
            .collect()
    }

    /// The number of an attribute with one element of 4 bytes.
    pub fn number32(&self, attribute: u32) -> Option<u32> {
        match self.value(attribute) {
            Some(Value::Plain(1, bytes)) => {
                Some(u32::from_ne_bytes(bytes.as_slice().try_into().ok()?))
            }
            _ => None,
        }
    }
}
