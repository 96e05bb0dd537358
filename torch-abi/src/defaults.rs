//! Virtual functions that a class does not override.
//!
//! The base's versions have no symbols and only throw an exception that contains their name, so their code identifies
//! them.
//!
//! ```text
//! 48 8d 3d DD DD DD DD    lea  rdi, [rip + D]    the name
//! e8 …                    call c10::detail::torchCheckFail(const char* function, …)
//! ```

/// The slots of these functions, if there are no others between two slots of a table; None for each that is missing.
pub(crate) fn between<const N: usize>(
    (first, last): (usize, usize),
    table: &[usize],
    names: [&str; N],
    memory: impl Fn(usize, usize) -> Option<&'static [u8]>,
) -> Option<[Option<usize>; N]> {
    let mut slots = [None; N];
    for slot in first + 1..last {
        let function = table.get(slot).copied()?;
        match slots.get_mut(which(&names, function, &memory)?) {
            // Each name must belong to one function.
            Some(found @ None) => *found = Some(slot),
            _ => return None,
        }
    }
    Some(slots)
}

/// Bytes of a function's code that are searched for this sequence.
const CODE: usize = 128;
/// The longest name that is searched for, including its terminator.
const NAME: usize = 32;

/// The index of the function that starts at an address; `memory` returns bytes of a library that are never written.
fn which(
    names: &[&str],
    function: usize,
    memory: impl Fn(usize, usize) -> Option<&'static [u8]>,
) -> Option<usize> {
    let code = memory(function, CODE)?;
    // An empty function returns at once, and the code of another function follows.
    if code.iter().take(8).any(|&byte| byte == 0xc3) {
        return None;
    }
    let (at, displacement) = code.windows(8).enumerate().find_map(|(at, bytes)| {
        let [0x48, 0x8d, 0x3d, a, b, c, d, 0xe8] = *bytes else {
            return None;
        };
        Some((at, i32::from_le_bytes([a, b, c, d])))
    })?;
    let text = (function + at + 7).checked_add_signed(displacement as isize)?;
    names.iter().position(|name| {
        debug_assert!(name.len() < NAME);
        let bytes = memory(text, name.len() + 1);
        bytes.is_some_and(|bytes| bytes.strip_prefix(name.as_bytes()) == Some(&[0]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `CUDAAllocator::createOrIncrefPool` of 2.12.1+cu130, up to its call of `torchCheckFail`.
    const THROWS: [u8; 88] = [
        0x41, 0x54, 0x48, 0x89, 0xfe, 0x55, 0x53, 0x48, 0x83, 0xec, 0x50, 0x48, 0x8b, 0x07, 0x48,
        0x8d, 0x5c, 0x24, 0x10, 0x48, 0x8d, 0x6c, 0x24, 0x30, 0x48, 0x89, 0xdf, 0xff, 0x90, 0x98,
        0x01, 0x00, 0x00, 0x48, 0x8d, 0x05, 0x40, 0x69, 0xad, 0x00, 0x48, 0x89, 0xde, 0x48, 0x89,
        0xef, 0x48, 0x8d, 0x54, 0x24, 0x08, 0x48, 0x89, 0x44, 0x24, 0x08, 0xe8, 0x33, 0x49, 0x41,
        0xfd, 0x48, 0x89, 0xe9, 0xba, 0xa7, 0x00, 0x00, 0x00, 0x48, 0x8d, 0x35, 0x0c, 0x67, 0xad,
        0x00, 0x48, 0x8d, 0x3d, 0x7e, 0x69, 0xad, 0x00, 0xe8, 0xf8, 0x68, 0xb1, 0xfc,
    ];
    const AT: usize = 0x1000;
    /// The address of the name in that code.
    const TEXT: usize = AT + 76 + 7 + 0xad_697e;
    const NAMES: [&str; 3] = ["getPoolUseCount", "createOrIncrefPool", "createOr"];

    fn found(code: &'static [u8], text: &'static [u8]) -> Option<usize> {
        which(&NAMES, AT, |at, length| match at {
            AT => Some(code),
            TEXT => text.get(..length),
            _ => None,
        })
    }

    #[test]
    fn a_function_that_throws_says_its_name() {
        assert_eq!(found(&THROWS, b"createOrIncrefPool\0other\0"), Some(1));
        assert_eq!(found(&THROWS, b"createOr\0 other text is here"), Some(2));
    }

    #[test]
    fn what_says_another_name_or_none_is_not_known() {
        assert_eq!(found(&THROWS, b"createOrIncrefPools\0"), None);
        assert_eq!(found(&THROWS, b""), None);
        assert_eq!(found(&THROWS[..76], b"createOrIncrefPool\0"), None);
        assert_eq!(found(&[], b"createOrIncrefPool\0"), None);
    }

    #[test]
    fn the_code_behind_one_that_returns_at_once_is_not_its_own() {
        // `ret`, and the alignment up to the next function.
        let mut next = vec![0xc3, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0];
        next.extend(&THROWS);
        let next: &'static [u8] = next.leak();
        let text = |at, length: usize| match at {
            AT => Some(next),
            at if at == TEXT + 8 => b"createOrIncrefPool\0".get(..length),
            _ => None,
        };
        assert_eq!(which(&NAMES, AT, text), None);
        assert_eq!(
            which(&NAMES, AT + 8, |at, length| match at {
                at if at == AT + 8 => Some(&next[8..]),
                _ => text(at, length),
            }),
            Some(1)
        );
    }

    /// The result for a table of functions that each have the code above with a different name.
    fn in_table(names: &'static [&'static [u8]]) -> Option<[Option<usize>; 3]> {
        const APART: usize = 0x100;
        let memory = move |at: usize, length: usize| {
            let of = |base: usize| at.checked_sub(base).map(|at| (at / APART, at % APART));
            match (of(AT), of(TEXT)) {
                (_, Some((n, 0))) if n < names.len() => names[n].get(..length),
                (Some((n, 0)), _) if n < names.len() => Some(&THROWS[..]),
                _ => None,
            }
        };
        let functions = (0..names.len()).map(|n| AT + n * APART);
        let table: Vec<usize> = [1, 2].into_iter().chain(functions).chain([3]).collect();
        between((1, names.len() + 2), &table, NAMES, memory)
    }

    #[test]
    fn all_functions_between_two_are_found() {
        let found = in_table(&[b"createOrIncrefPool\0", b"getPoolUseCount\0"]);
        assert_eq!(found, Some([Some(3), Some(2), None]));
        assert_eq!(in_table(&[]), Some([None; 3]));
    }

    #[test]
    fn one_that_is_not_known_leaves_none_known() {
        let unknown: [&[&[u8]]; 2] = [
            &[b"createOrIncrefPool\0", b"setSomethingNew\0"],
            &[b"createOrIncrefPool\0", b"createOrIncrefPool\0"],
        ];
        for names in unknown {
            assert_eq!(in_table(names), None);
        }
    }
}
