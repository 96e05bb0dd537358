//! Answers: tables of memory whose columns are declared once. Text, JSON with its schema, the values and the help of
//! `lines --by`, and the assistants' tool are made from them.
//!
//! A new answer is one file here and its place in [`ALL`]. It gets stacks with their bytes and makes rows of them. It reads
//! no file, and does not know who asks.

mod code;
mod table;
mod torch;

use serde_json::Value;

pub use table::{Answer, Cell, Column, Label, Presence, Row, Table, Unit};

/// All answers, in the order of the help.
pub static ALL: [&Answer; 7] = [
    &code::FUNCTION,
    &code::CALLER,
    &code::FILE,
    &code::LIBRARY,
    &torch::MODULE,
    &torch::CATEGORY,
    &code::PHASE,
];

/// The schemas of the answers' JSON, by the names of their forms.
pub fn schemas() -> impl Iterator<Item = (&'static str, Value)> {
    ALL.into_iter().map(|answer| (answer.form, answer.schema()))
}

/// The answer with this name.
pub fn named(name: &str) -> Option<&'static Answer> {
    ALL.into_iter().find(|answer| answer.name == name)
}
