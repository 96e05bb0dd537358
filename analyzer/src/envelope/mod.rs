//! What every command prints as JSON: one object with the name and version of its form, what is known of the
//! capture, and what was found.

mod capture;
mod schema;
mod view;
mod views;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

pub use capture::Capture;
pub use schema::schema;
pub use view::{Body, Heads, View, id};
pub use views::schemas;

/// The captures that something is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Captures {
    /// They are named in what was found.
    InBody,
    /// One.
    One(Box<Capture>),
    /// Several, in the order in which they were named.
    Several(Vec<Capture>),
}

/// The object.
#[derive(Debug)]
pub struct Envelope<'a, V> {
    /// Of what.
    pub captures: &'a Captures,
    /// What was found.
    pub found: &'a V,
}

impl<V: View + Serialize> Serialize for Envelope<'_, V> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("schema", &id(V::NAME))?;
        match self.captures {
            Captures::InBody => {}
            Captures::One(capture) => map.serialize_entry("capture", capture)?,
            Captures::Several(captures) => map.serialize_entry("captures", captures)?,
        }
        map.serialize_entry(V::BODY.key(), self.found)?;
        map.end()
    }
}

/// The object's text up to what was found, for what is written as it is found. After that comes `}`.
///
/// # Errors
/// None that are known.
pub fn opening<V: View>(captures: &Captures) -> serde_json::Result<String> {
    let mut text = format!(
        "{{\n\"schema\": {},\n",
        serde_json::to_string(&id(V::NAME))?
    );
    match captures {
        Captures::InBody => {}
        Captures::One(capture) => {
            text += &format!("\"capture\": {},\n", serde_json::to_string(capture)?);
        }
        Captures::Several(captures) => {
            text += &format!("\"captures\": {},\n", serde_json::to_string(captures)?);
        }
    }
    Ok(text + &format!("\"{}\": ", V::BODY.key()))
}
