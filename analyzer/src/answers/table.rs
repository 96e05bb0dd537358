//! What an answer is: its columns, its rows as JSON, and the schema of that.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::ask::{Pivot, Wrong};
use crate::envelope::{Body, Form, Formed, Heads, schema_of_rows};
use crate::replay::Replay;
use crate::views::ByStack;

/// A table of memory: a row for each group of stacks.
#[derive(Debug)]
pub struct Answer {
    /// What the rows are, such as `library`: the value of `--by`.
    pub name: &'static str,
    /// The same in a line of help.
    pub about: &'static str,
    /// The name of its form of JSON. Answers with the same columns may have one form.
    pub form: &'static str,
    /// The beginning of its title, before the level: `Libraries of`.
    pub title: &'static str,
    /// Its columns. The first one of text names the row; `bytes` is the row's memory.
    pub columns: &'static [Column],
    /// The rows, each with a cell for each column, the largest first. They sum to what the stacks have.
    pub rows: fn(&Replay, &ByStack) -> Vec<Row>,
}

impl Answer {
    /// Fails if it needs what the question does not give: categories of blocks, which are known only of live blocks and of
    /// those that were freed.
    ///
    /// # Errors
    /// It does.
    pub fn check(&self, question: &Pivot) -> Result<(), Wrong> {
        let has_categories = self.columns.iter().any(|column| column.name == "category");
        match has_categories && question.follows_blocks() {
            true => Err(Wrong::Options(
                "--by category goes with --of live and --of allocated only, without --thread",
            )),
            false => Ok(()),
        }
    }

    /// The schema of its JSON.
    pub(super) fn schema(&self) -> Value {
        let columns = || self.columns.iter();
        let properties = columns().map(|column| (column.name.to_owned(), column.schema()));
        let required = columns().filter(|column| column.presence != Presence::OrAbsent);
        let row = json!({
            "type": "object",
            "properties": properties.collect::<Map<_, _>>(),
            "required": required.map(|column| column.name).collect::<Vec<_>>(),
        });
        schema_of_rows(form(self.form), row)
    }

    /// The answer about these stacks.
    pub fn of(&'static self, replay: &Replay, stacks: &ByStack) -> Table {
        Table {
            answer: self,
            rows: (self.rows)(replay, stacks),
        }
    }
}

/// What a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The ordinal of a GPU; none: memory of no GPU.
    Device,
    /// A text.
    Text,
    /// Whether something is so.
    Flag,
    /// Bytes.
    Bytes,
    /// A number of things.
    Count,
}

/// Whether each row has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Each row has.
    Always,
    /// A row without one has `null`.
    OrNull,
    /// A row without one lacks the key.
    OrAbsent,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its key in JSON. Text shows it without `_bytes`.
    pub name: &'static str,
    /// What it has, in one line, for the schema.
    pub doc: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Whether each row has it.
    pub presence: Presence,
}

impl Column {
    /// A column that each row has, except for a device.
    pub const fn new(name: &'static str, unit: Unit, doc: &'static str) -> Self {
        let presence = match unit {
            Unit::Device => Presence::OrNull,
            _ => Presence::Always,
        };
        Self {
            name,
            doc,
            unit,
            presence,
        }
    }

    /// The same; a row without a value has `null`.
    pub const fn or_null(self) -> Self {
        let presence = Presence::OrNull;
        Self { presence, ..self }
    }

    /// The same; a row without a value lacks the key.
    pub const fn or_absent(self) -> Self {
        let presence = Presence::OrAbsent;
        Self { presence, ..self }
    }

    fn schema(&self) -> Value {
        let mut schema = match self.unit {
            Unit::Text => json!({"type": "string"}),
            Unit::Flag => json!({"type": "boolean"}),
            Unit::Device => {
                json!({"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255})
            }
            Unit::Bytes | Unit::Count => {
                json!({"type": "integer", "format": "uint64", "minimum": 0})
            }
        };
        if self.presence == Presence::OrNull {
            schema["type"] = json!([schema["type"], "null"]);
        }
        schema["description"] = self.doc.into();
        schema
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// None.
    None,
    /// A text.
    Text(String),
    /// Whether something is so.
    Flag(bool),
    /// Bytes, or another number.
    Number(u64),
}

impl From<Option<String>> for Cell {
    fn from(text: Option<String>) -> Self {
        text.map_or(Self::None, Self::Text)
    }
}

impl From<Option<u64>> for Cell {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Self::None, Self::Number)
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => to.serialize_none(),
            Self::Text(text) => to.serialize_str(text),
            Self::Flag(flag) => to.serialize_bool(*flag),
            Self::Number(number) => to.serialize_u64(*number),
        }
    }
}

/// What text shows in place of the columns with text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The name.
    pub name: String,
    /// What follows it.
    pub note: &'static str,
    /// What is beside it, faintly.
    pub more: String,
}

impl Label {
    /// Without a note.
    pub fn new(name: &str, more: &str) -> Self {
        Self {
            name: name.to_owned(),
            note: "",
            more: more.to_owned(),
        }
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// A value for each column.
    pub cells: Vec<Cell>,
    /// What text shows in place of the columns with text; `None`: these.
    pub label: Option<Label>,
}

impl Row {
    /// Text shows its columns with text.
    pub fn of(cells: Vec<Cell>) -> Self {
        Self { cells, label: None }
    }
}

/// An answer, with its rows.
#[derive(Debug)]
pub struct Table {
    /// Which.
    pub answer: &'static Answer,
    /// The rows.
    pub rows: Vec<Row>,
}

impl Table {
    /// The number of a column in a row; 0 if it has none.
    pub fn number(&self, row: &Row, column: &str) -> u64 {
        let at = self.position(column).and_then(|at| row.cells.get(at));
        match at {
            Some(Cell::Number(number)) => *number,
            _ => 0,
        }
    }

    /// Which of the columns has this name.
    pub fn position(&self, column: &str) -> Option<usize> {
        let mut columns = self.answer.columns.iter();
        columns.position(|of| of.name == column)
    }

    /// The memory of all rows.
    pub fn bytes(&self) -> u64 {
        self.rows.iter().map(|row| self.number(row, "bytes")).sum()
    }

    /// A row as JSON.
    pub fn json<'a>(&'a self, row: &'a Row) -> impl Serialize + 'a {
        Object(self, row)
    }
}

/// A row as an object.
struct Object<'a>(&'a Table, &'a Row);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for (column, cell) in self.0.answer.columns.iter().zip(&self.1.cells) {
            if column.presence != Presence::OrAbsent || *cell != Cell::None {
                map.serialize_entry(column.name, cell)?;
            }
        }
        map.end()
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.rows.iter().map(|row| Object(self, row)))
    }
}

impl Formed for Table {
    fn form(&self) -> Form {
        form(self.answer.form)
    }
}

const fn form(name: &'static str) -> Form {
    Form {
        name,
        body: Body::Rows,
        heads: Heads::One,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::answers::{ALL, named};

    #[test]
    fn answers_have_names_and_columns() {
        let names: BTreeSet<&str> = ALL.iter().map(|answer| answer.name).collect();
        assert_eq!(names.len(), ALL.len());
        for answer in ALL {
            let name = answer.name;
            assert_eq!(named(name).unwrap().title, answer.title);
            let has = |unit| answer.columns.iter().any(|column| column.unit == unit);
            assert!(has(Unit::Text) && has(Unit::Bytes), "{name}");
            let keys = |of: &Answer| of.columns.iter().map(|of| of.name).collect::<Vec<_>>();
            let different = BTreeSet::from_iter(keys(answer));
            assert_eq!(different.len(), answer.columns.len(), "{name}");
            for of in answer.columns {
                assert!(of.doc.ends_with('.'), "{name}: {}", of.name);
                let is_of_bytes = of.name == "bytes" || of.name.ends_with("_bytes");
                assert_eq!(of.unit == Unit::Bytes, is_of_bytes, "{name}: {}", of.name);
            }
            for other in ALL.iter().filter(|other| other.form == answer.form) {
                assert_eq!(keys(other), keys(answer), "{name} and {}", other.name);
            }
        }
    }
}
