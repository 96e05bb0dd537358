//! Values as tables have them.

use serde::Serialize;

/// A figure: tables have no unsigned numbers.
pub(super) fn int(figure: u64) -> i64 {
    i64::try_from(figure).unwrap_or(i64::MAX)
}

/// A time in microseconds.
pub(super) fn micros(unix_ns: u64) -> i64 {
    int(unix_ns / 1000)
}

/// The word that JSON has for one of a kind.
pub(super) fn word(of: impl Serialize) -> String {
    match serde_json::to_value(of) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
