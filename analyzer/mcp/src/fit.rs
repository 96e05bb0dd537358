//! Answers of bounded size: as many rows as fit, and a cursor for the rest.

use serde_json::{Map, Value, json};

/// The most bytes of an answer's JSON.
pub const MOST: usize = 4096;
/// The most bytes of an answer without its rows.
const HEAD: usize = 2400;
/// Limits for the characters of a text and the members of a list, tried in order until the answer fits.
const CUTS: [(usize, usize); 5] = [(600, 24), (240, 8), (100, 4), (40, 2), (12, 1)];

/// The page of `rows` that begins at `start`, below `head`. `next`: the cursor of a row.
///
/// A row that is too long by itself is cut and has `"cut": true`; figures are never cut.
pub fn page(
    head: &Map<String, Value>,
    rows: &[Value],
    start: usize,
    next: impl Fn(usize) -> String,
) -> Map<String, Value> {
    let mut answer = cut(Value::Object(head.clone()), HEAD);
    let start = start.min(rows.len());
    // Reserves space for the longest cursor.
    let room = MOST
        - length(&closed(
            answer.clone(),
            Vec::new(),
            usize::MAX,
            Some(next(usize::MAX)),
        ));
    let (mut used, mut shown) = (0, Vec::new());
    for row in &rows[start..] {
        let mut row = row.clone();
        if shown.is_empty() {
            row = Value::Object(cut(row, room.saturating_sub(1)));
        }
        used += length(&row) + 1;
        if used > room {
            break;
        }
        shown.push(row);
    }
    let end = start + shown.len();
    let more = rows.len() - end;
    answer = closed(answer, shown, more, (more > 0).then(|| next(end)));
    answer
}

/// An answer with its rows and what follows them.
fn closed(
    mut answer: Map<String, Value>,
    rows: Vec<Value>,
    more: usize,
    next: Option<String>,
) -> Map<String, Value> {
    answer.insert("rows".into(), Value::Array(rows));
    answer.insert("more".into(), json!(more));
    if let Some(next) = next {
        answer.insert("next".into(), next.into());
    }
    answer
}

/// Its length as JSON, in bytes.
fn length(value: &impl serde::Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |text| text.len())
}

/// The object; texts and lists are cut until it has at most `most` bytes.
fn cut(value: Value, most: usize) -> Map<String, Value> {
    let value = match value {
        Value::Object(object) => object,
        other => Map::from_iter([("value".to_owned(), other)]),
    };
    if length(&value) <= most {
        return value;
    }
    for (characters, members) in CUTS {
        let mut less: Map<String, Value> = value
            .iter()
            .map(|(key, value)| (key.clone(), shorter(value, characters, members)))
            .collect();
        less.insert("cut".into(), true.into());
        if length(&less) <= most {
            return less;
        }
    }
    Map::from_iter([("cut".to_owned(), true.into())])
}

/// A value with its texts and lists cut.
fn shorter(value: &Value, characters: usize, members: usize) -> Value {
    match value {
        Value::String(text) => text_of(text, characters).into(),
        Value::Array(all) => {
            let kept = all.iter().take(members);
            kept.map(|one| shorter(one, characters, members)).collect()
        }
        Value::Object(all) => {
            let all = all.iter();
            all.map(|(key, value)| (key.clone(), shorter(value, characters, members)))
                .collect()
        }
        plain => plain.clone(),
    }
}

/// A text without its middle, so that a path's file and a message's beginning remain.
pub fn text_of(text: &str, characters: usize) -> String {
    let count = text.chars().count();
    if count <= characters {
        return text.to_owned();
    }
    let before = characters.saturating_sub(1) / 2;
    let after = characters.saturating_sub(1) - before;
    let first = text.chars().take(before);
    let last = text.chars().skip(count - after);
    first.chain(['…']).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(pairs: Vec<(String, Value)>) -> Value {
        Value::Object(pairs.into_iter().collect())
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            proptest::collection::vec(any::<char>(), 0..800)
                .prop_map(|text| Value::from(String::from_iter(text))),
        ];
        leaf.prop_recursive(3, 64, 8, |inner| {
            let key = || proptest::collection::vec(proptest::char::range('a', 'z'), 1..12);
            let pair = (key().prop_map(String::from_iter), inner.clone());
            prop_oneof![
                proptest::collection::vec(inner, 0..8).prop_map(Value::Array),
                proptest::collection::vec(pair, 0..8).prop_map(object),
            ]
        })
    }

    fn next(offset: usize) -> String {
        format!("{offset:x}.0123456789abcdef")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        /// With any number of rows, each page is small enough, and together the pages have all rows, once each and in
        /// order.
        #[test]
        fn pages_are_bounded_and_complete(count in 0usize..600, width in 0usize..300) {
            let row = |at: usize| json!({"at": at, "bytes": u64::MAX, "file": "x".repeat(width)});
            let rows = Vec::from_iter((0..count).map(row));
            let head = Map::from_iter([("total_rows".to_owned(), json!(count))]);
            let (mut start, mut seen) = (0, Vec::new());
            loop {
                let page = page(&head, &rows, start, next);
                prop_assert!(length(&page) <= MOST);
                let shown = page["rows"].as_array().unwrap();
                seen.extend(shown.iter().map(|row| row["at"].as_u64().unwrap()));
                prop_assert_eq!(page["more"].as_u64().unwrap() as usize, count - seen.len());
                match page.get("next").and_then(Value::as_str) {
                    None => break,
                    Some(next) => {
                        prop_assert!(!shown.is_empty());
                        start = usize::from_str_radix(next.split('.').next().unwrap(), 16).unwrap();
                    }
                }
            }
            prop_assert_eq!(seen, Vec::from_iter(0..count as u64));
        }

        /// With any contents.
        #[test]
        fn any_answer_is_bounded(head in values(), rows in proptest::collection::vec(values(), 0..12)) {
            let head = cut(head, usize::MAX);
            let mut start = 0;
            while start < rows.len() {
                let page = page(&head, &rows, start, next);
                prop_assert!(length(&page) <= MOST, "{}", length(&page));
                let shown = page["rows"].as_array().unwrap().len();
                prop_assert!(shown > 0);
                start += shown;
            }
        }
    }

    #[test]
    fn a_long_text_loses_its_middle_and_says_so() {
        let row = json!({"bytes": 12_345_678_901_u64, "file": format!("/a/{}/train.py", "x".repeat(9000))});
        let page = page(&Map::new(), &[row], 0, next);
        let row = &page["rows"][0];
        assert_eq!(
            (&row["bytes"], &row["cut"]),
            (&json!(12_345_678_901_u64), &json!(true))
        );
        let file = row["file"].as_str().unwrap();
        assert!(
            file.starts_with("/a/x") && file.ends_with("/train.py"),
            "{file}"
        );
    }
}
