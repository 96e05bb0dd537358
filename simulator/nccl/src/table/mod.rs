//! Every export of the library.

mod collectives;
mod communicators;
mod unsupported;

/// Everything that the library exports, in no particular order.
pub fn names() -> impl Iterator<Item = &'static str> {
    [communicators::NAMES, collectives::NAMES, unsupported::NAMES]
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
