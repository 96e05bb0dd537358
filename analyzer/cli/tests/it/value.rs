//! Access to the JSON of views.

use serde_json::Value;

/// The items of a list.
#[track_caller]
pub fn list(value: &Value) -> &[Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("no list: {value}"))
}

/// An integer.
#[track_caller]
pub fn int(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("no integer: {value}"))
}

/// The sum of a field of all rows.
#[track_caller]
pub fn sum(rows: &Value, field: &str) -> i64 {
    list(rows).iter().map(|row| int(&row[field])).sum()
}

/// The sum of a list of integers.
#[track_caller]
pub fn sum_of(figures: &Value) -> i64 {
    list(figures).iter().map(int).sum()
}
