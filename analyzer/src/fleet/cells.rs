//! Values in the types of tables.

use serde::Serialize;

/// A figure. Tables have no unsigned numbers.
pub(super) fn int(figure: u64) -> i64 {
    i64::try_from(figure).unwrap_or(i64::MAX)
}

/// A time in microseconds.
pub(super) fn micros(unix_ns: u64) -> i64 {
    int(unix_ns / 1000)
}

/// The word for a kind in JSON.
pub(super) fn word(of: impl Serialize) -> String {
    match serde_json::to_value(of) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
