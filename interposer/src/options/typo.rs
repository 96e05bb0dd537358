//! Finds the option that a misspelt name of a variable means.

/// What all options begin with.
const PREFIX: &str = "GPUMEM_";
/// The most changed, missing, added or exchanged characters.
const MOST: usize = 2;

/// The option whose name is nearest to `name`; `None` if it is an option itself or is not near one.
pub(super) fn option_like<'a>(
    name: &str,
    options: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let word = name.strip_prefix(PREFIX)?;
    if options.clone().any(|option| option == name) {
        return None;
    }
    let near = options.filter_map(|option| {
        let own = option.strip_prefix(PREFIX)?;
        let distance = distance(word, own);
        // In a short name, each character says more.
        (distance <= MOST.min(own.len() / 3)).then_some((distance, option))
    });
    near.min().map(|(_, option)| option)
}

/// How many characters are to be changed, added, removed or exchanged with their neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at =
                |row: &[usize], place: usize| row.get(place).copied().unwrap_or(usize::MAX - 1);
            let mut least = (at(&row, j) + usize::from(x != y))
                .min(at(&row, j + 1) + 1)
                .min(at(&next, j) + 1);
            let is_exchanged = i > 0 && j > 0 && Some(x) == b.get(j - 1) && a.get(i - 1) == Some(y);
            if is_exchanged {
                least = least.min(at(&before, j - 1) + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_option_is_named_and_other_names_are_not() {
        let options = [
            "GPUMEM_OUTPUT",
            "GPUMEM_RING",
            "GPUMEM_STACKS",
            "GPUMEM_RING_SLOTS",
            "GPUMEM_QUIET",
        ];
        for (name, expected) in [
            ("GPUMEM_OUTPTU", Some("GPUMEM_OUTPUT")),
            ("GPUMEM_OUPUT", Some("GPUMEM_OUTPUT")),
            ("GPUMEM_STACK", Some("GPUMEM_STACKS")),
            ("GPUMEM_RING_SLOT", Some("GPUMEM_RING_SLOTS")),
            ("GPUMEM_QUEIT", Some("GPUMEM_QUIET")),
            ("GPUMEM_OUTPUT", None),
            ("GPUMEM_SIM_MEMORY", None),
            ("GPUMEM_BUILT", None),
            ("OUTPTU", None),
            ("GPUMEM_", None),
        ] {
            assert_eq!(option_like(name, options.into_iter()), expected, "{name}");
        }
    }

    #[test]
    fn names_of_gpumems_own_variables_are_no_misspelt_options() {
        for name in [
            "GPUMEM_NO_SOURCE",
            "GPUMEM_DEBUG_DIR",
            "GPUMEM_LIMIT",
            "GPUMEM_SIM_DEVICES",
            "GPUMEM_SIM_CARD",
            "GPUMEM_REPORT",
            "GPUMEM_ANALYZE",
            "GPUMEM_LIBRARY",
        ] {
            let options = super::super::TABLE.iter().map(|(row, _)| row.name);
            assert_eq!(option_like(name, options), None, "{name}");
        }
    }
}
