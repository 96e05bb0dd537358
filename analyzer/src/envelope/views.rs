//! All results of commands, by the names of their forms.

use super::schema::schema;
use super::view::{Body, Form, Heads, View};
use crate::ranks::Job;
use crate::views::ci::Comparison;
use crate::views::{
    Annotated, Change, Hint, Leaks, Ledger, LineRow, Node, Report, Scopes, SizesOn, Summary,
    Temporary, ThreadsOn, Timeline,
};

macro_rules! views {
    ($($type:ty: $name:literal, $body:ident, $heads:ident;)*) => {
        $(impl View for $type {
            const FORM: Form = Form {
                name: $name,
                body: Body::$body,
                heads: Heads::$heads,
            };
        })*

        /// The schemas of this crate's results, by the names of their forms; those of answers are theirs.
        pub fn schemas() -> Vec<(&'static str, serde_json::Value)> {
            vec![$(($name, schema::<$type>())),*]
        }
    };
}

views! {
    Annotated: "annotated", Data, One;
    Vec<Change>: "changes", Rows, One;
    Comparison: "ci", Data, None;
    Vec<Hint>: "hints", Rows, One;
    Leaks: "leaks", Data, One;
    Vec<Ledger>: "ledger", Rows, One;
    Vec<LineRow>: "lines", Rows, One;
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
