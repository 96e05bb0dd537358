//! A profile's table of texts.

use rustc_hash::FxHashMap;

/// Texts by number; 0 is the empty one.
pub(super) struct Strings {
    pub(super) texts: Vec<String>,
    numbers: FxHashMap<String, u64>,
}

impl Strings {
    pub(super) fn new() -> Self {
        Self {
            texts: vec![String::new()],
            numbers: FxHashMap::from_iter([(String::new(), 0)]),
        }
    }

    pub(super) fn number(&mut self, text: &str) -> u64 {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let number = self.texts.len() as u64;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}
