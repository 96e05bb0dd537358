//! Results of commands: the name of the form, and the keys that are printed with it.

use schemars::JsonSchema;

/// The key of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A list.
    Rows,
    /// An object.
    Data,
}

impl Body {
    /// The key.
    pub fn key(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Data => "data",
        }
    }
}

/// The key that names the captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heads {
    /// None: the result names them.
    None,
    /// `capture`.
    One,
    /// `captures`.
    Several,
    /// `capture`, or `captures` if several were named.
    OneOrSeveral,
}

/// The result of a command.
pub trait View: JsonSchema {
    /// The name of its form, such as `lines`.
    const NAME: &'static str;
    /// Whether it is a list.
    const BODY: Body;
    /// The key that names the captures.
    const HEADS: Heads;
}

/// The form's name with its version. A change that removes something or changes its meaning needs a new version.
pub fn id(name: &str) -> String {
    format!("gpumem/{name}/1")
}
