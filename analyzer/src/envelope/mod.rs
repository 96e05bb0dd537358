//! The JSON of every command: one object with the name and version of its form, facts about the capture, and the
//! result.

mod capture;
mod schema;
mod view;
mod views;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

pub use capture::Capture;
pub use schema::{schema, schema_of_rows};
pub use view::{Body, Form, Formed, Heads, View, id};
pub use views::schemas;

/// The captures that a result is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Captures {
    /// The result names them.
    InBody,
    /// One.
    One(Box<Capture>),
    /// Several, in the order in which they were named.
    Several(Vec<Capture>),
}

/// The object.
#[derive(Debug)]
pub struct Envelope<'a, V> {
    /// The captures.
    pub captures: &'a Captures,
    /// The result.
    pub found: &'a V,
}

impl<V: Formed + Serialize> Serialize for Envelope<'_, V> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let form = self.found.form();
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("schema", &id(form.name))?;
        match self.captures {
            Captures::InBody => {}
            Captures::One(capture) => map.serialize_entry("capture", capture)?,
            Captures::Several(captures) => map.serialize_entry("captures", captures)?,
        }
        map.serialize_entry(form.body.key(), self.found)?;
        map.end()
    }
}

/// The object's text up to the result, for results that are written piecemeal. Append `}` after the result.
///
/// # Errors
/// No error is known.
pub fn opening<V: View>(captures: &Captures) -> serde_json::Result<String> {
    let mut text = format!(
        "{{\n\"schema\": {},\n",
        serde_json::to_string(&id(V::FORM.name))?
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
    Ok(text + &format!("\"{}\": ", V::FORM.body.key()))
}
