//! Every export of the library: all 239 names of NVIDIA's libcudnn.so.9, version 9.26.

mod backend;
mod computations;
mod convolutions;
mod descriptors;
mod handles;
mod recurrent;
mod sizes;
mod unsupported;

/// Everything that the library exports, in no particular order.
pub fn names() -> impl Iterator<Item = &'static str> {
    [
        handles::NAMES,
        backend::NAMES,
        descriptors::NAMES,
        descriptors::PAIRS,
        computations::NAMES,
        convolutions::NAMES,
        recurrent::NAMES,
        sizes::NAMES,
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
