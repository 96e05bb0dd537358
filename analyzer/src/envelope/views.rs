//! What commands find, by the name of its form.

use schemars::JsonSchema;

use crate::ranks::Job;
use crate::views::ci::Comparison;
use crate::views::{
    Annotated, CategoryRow, Change, Hint, Leaks, Ledger, LineRow, ModuleRow, Node, Report, Scopes,
    SizesOn, Summary, Temporary, ThreadsOn, Timeline,
};

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

macro_rules! views {
    ($($type:ty: $name:literal, $body:ident, $heads:ident;)*) => {
        $(impl View for $type {
            const NAME: &'static str = $name;
            const BODY: Body = Body::$body;
            const HEADS: Heads = Heads::$heads;
        })*

        /// The schemas of what this crate finds, by the names of their forms.
        pub fn schemas() -> Vec<(&'static str, serde_json::Value)> {
            vec![$(($name, super::schema::<$type>())),*]
        }
    };
}

views! {
    Annotated: "annotated", Data, One;
    Vec<CategoryRow>: "categories", Rows, One;
    Vec<Change>: "changes", Rows, One;
    Comparison: "ci", Data, None;
    Vec<Hint>: "hints", Rows, One;
    Leaks: "leaks", Data, One;
    Vec<Ledger>: "ledger", Rows, One;
    Vec<LineRow>: "lines", Rows, One;
    Vec<ModuleRow>: "modules", Rows, One;
    Job: "ranks", Data, None;
    Report<'_>: "report", Data, One;
    Scopes: "scopes", Data, One;
    Vec<SizesOn>: "sizes", Rows, One;
    Summary: "summary", Data, One;
    Temporary: "temporary", Data, One;
    Vec<ThreadsOn>: "threads", Rows, One;
    Timeline: "timeline", Data, One;
    Node: "tree", Data, One;
}
