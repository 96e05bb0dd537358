//! What commands find: what its form is called, and what stands beside it.

use schemars::JsonSchema;

/// Under which key what was found stands.
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

/// What is said of captures beside what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heads {
    /// Nothing: they are named in what was found.
    None,
    /// `capture`.
    One,
    /// `captures`.
    Several,
    /// `capture`, or `captures` if several were named.
    OneOrSeveral,
}

/// What a command finds.
pub trait View: JsonSchema {
    /// What its form is called: `lines`.
    const NAME: &'static str;
    /// Whether it is a list.
    const BODY: Body;
    /// What is said of captures.
    const HEADS: Heads;
}

/// The form's name with its version. A change that takes something away or gives it another meaning gets a new version.
pub fn id(name: &str) -> String {
    format!("gpumem/{name}/1")
}
