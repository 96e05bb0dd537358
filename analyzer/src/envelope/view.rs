//! Results of commands: the name of the form, and the keys that are printed with it.

use schemars::JsonSchema;

/// The key of the result in a command's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// `rows`: the result is a list.
    Rows,
    /// `data`: the result is an object.
    Data,
}

impl Body {
    /// The key as text.
    pub fn key(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Data => "data",
        }
    }
}

/// The key of the captures in a command's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heads {
    /// No key: the result names the captures.
    None,
    /// `capture`: one capture.
    One,
    /// `captures`: a list of captures.
    Several,
    /// `capture`, or `captures` if several captures were named.
    OneOrSeveral,
}

/// A form of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Its name, such as `lines`.
    pub name: &'static str,
    /// The key of the result.
    pub body: Body,
    /// The key of the captures.
    pub heads: Heads,
}

/// The result of a command, whose type has one form.
pub trait View: JsonSchema {
    /// The form.
    const FORM: Form;
}

/// The result of a command.
pub trait Formed {
    /// Its form.
    fn form(&self) -> Form;
}

impl<V: View> Formed for V {
    fn form(&self) -> Form {
        Self::FORM
    }
}

/// The name of the form with its version. A change that removes a field or changes its meaning needs a new version.
pub fn id(name: &str) -> String {
    format!("gpumem/{name}/1")
}
