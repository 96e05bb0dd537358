//! The result of a tool, before it is cut into pages.

use gpumem_analyzer::units::{bytes, signed};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cursor::Edition;

/// Fields that each page has.
const EACH_PAGE: [&str; 10] = [
    "account",
    "account_after",
    "account_before",
    "after",
    "at",
    "before",
    "capture",
    "file",
    "level",
    "total_rows",
];

/// A complete answer.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The fields before the rows of each page.
    pub head: Map<String, Value>,
    /// The rows.
    pub rows: Vec<Value>,
    /// Whether repeating the request gives the same answer, so that it may be cached.
    pub is_settled: bool,
}

impl Found {
    /// An empty answer. `is_settled`: whether repeating the request gives the same answer.
    pub fn settled(is_settled: bool) -> Self {
        Self {
            is_settled,
            ..Self::default()
        }
    }

    /// Adds a field to the head.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.head.insert(key.into(), value.into());
        self
    }

    /// The same, if there is a value.
    pub fn with_any(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds bytes to the head, and the same in readable form.
    pub fn with_bytes(self, key: &str, short: &str, figure: u64) -> Self {
        self.with(key, figure).with(short, bytes(figure))
    }

    /// Adds rows.
    pub fn with_rows(mut self, rows: impl IntoIterator<Item = Value>) -> Self {
        self.rows.extend(rows);
        self
    }

    /// Suggests a next request: a tool and its arguments.
    pub fn ask(mut self, tool: &str, arguments: Value) -> Self {
        let question = json!({"tool": tool, "arguments": arguments});
        let asked = self.head.entry("ask_next").or_insert_with(|| json!([]));
        if let Some(asked) = asked.as_array_mut() {
            asked.push(question);
        }
        self
    }

    /// The fields before the rows of a page. Only the first page has all of them.
    pub fn head_of(&self, start: usize) -> Map<String, Value> {
        let head = self.head.iter();
        let is_shown = |key: &str| start == 0 || EACH_PAGE.contains(&key);
        head.filter(|(key, _)| is_shown(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// The edition of the pages.
    pub fn edition(&self, question: &str) -> Edition {
        let text = |value| serde_json::to_string(value).unwrap_or_default();
        let mut parts = vec![question.to_owned()];
        parts.extend(self.rows.iter().map(text));
        Edition::of(&parts.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Other names of a file, in addition to `file`. An assistant needs one, and leaving them out saves space for rows.
const OTHER_NAMES: [&str; 3] = ["file_relative", "before_file", "after_file"];

/// Anything that commands print as JSON, as a value with one name for each file.
pub fn value(of: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(of).unwrap_or_default();
    leave_out_other_names(&mut value);
    value
}

fn leave_out_other_names(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(relative @ Value::String(_)) = object.get("file_relative").cloned() {
                object.insert("file".to_owned(), relative);
            }
            object.retain(|key, _| !OTHER_NAMES.contains(&key.as_str()));
            object.values_mut().for_each(leave_out_other_names);
        }
        Value::Array(all) => all.iter_mut().for_each(leave_out_other_names),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The same with readable sizes in addition to figures: `bytes` gets `size`, `live_bytes` gets `live`. Fields that are
/// null are omitted.
pub fn row(of: &impl Serialize) -> Value {
    match value(of) {
        Value::Object(object) => Value::Object(sized(object)),
        other => other,
    }
}

fn sized(object: Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, value) in object {
        let short = match key.as_str() {
            "bytes" => Some("size"),
            key => key.strip_suffix("_bytes"),
        };
        let size = value.as_u64().map(bytes).or(value.as_i64().map(signed));
        if let (Some(short), Some(size)) = (short, size) {
            out.insert(short.to_owned(), size.into());
        }
        if !value.is_null() {
            out.insert(key, value);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_name() {
        let of =
            json!({"file": "/a.py", "file_relative": "a.py", "lines": [{"after_file": "/b.py"}]});
        assert_eq!(value(&of), json!({"file": "a.py", "lines": [{}]}));
        let of = json!({"file": "/b.py", "file_relative": null});
        assert_eq!(value(&of), json!({"file": "/b.py"}));
    }

    #[test]
    fn figures_get_sizes_and_nulls_go() {
        let of = json!({"bytes": 1 << 20, "change_bytes": -(3 << 20), "line": null, "blocks": 2});
        assert_eq!(
            row(&of),
            json!({"bytes": 1 << 20, "size": "1.00 MiB", "change_bytes": -(3 << 20), "change": "-3.00 MiB", "blocks": 2})
        );
    }
}
