//! Every export of the library.

mod computations;
mod handles;
mod results;
mod unsupported;

/// Everything that the library exports, in no particular order.
pub fn names() -> impl Iterator<Item = &'static str> {
    [
        handles::NAMES,
        handles::SETTINGS,
        results::NAMES,
        computations::LEVEL_1,
        computations::LEVEL_2,
        computations::LEVEL_3,
        computations::EXTENSIONS,
        unsupported::NAMES,
    ]
    .into_iter()
    .flatten()
    .copied()
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_name_is_exported_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for name in super::names() {
            assert!(seen.insert(name), "{name}");
        }
    }
}
