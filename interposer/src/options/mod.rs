//! Every environment option, in one table from which options are read and documented.

mod table;
mod typo;
mod values;

use std::ffi::OsString;

use self::table::TABLE;
pub(crate) use self::values::{Options, Ring};
use crate::message;

impl Options {
    /// Reads the options through `get`. An invalid value is reported on stderr and ignored.
    pub(crate) fn read(get: impl Fn(&str) -> Option<OsString>) -> Self {
        let mut options = Self::default();
        for (described, take) in TABLE {
            let Some(value) = get(described.name) else {
                continue;
            };
            let before = options.clone();
            if !take(&mut options, &value) {
                options = before;
                message::line(&format!(
                    "{}={}: invalid value; using the default, {}. Accepted: {}.",
                    described.name,
                    value.to_string_lossy(),
                    described.default,
                    described.values
                ));
            }
        }
        options
    }
}

/// Reports variables whose names are nearly those of options: `GPUMEM_OUTPTU`.
pub(crate) fn report_typos(names: impl Iterator<Item = OsString>) {
    for name in names {
        let Some(name) = name.to_str() else {
            continue;
        };
        if let Some(meant) = typo::option_like(name, TABLE.iter().map(|(row, _)| row.name)) {
            message::line(&format!(
                "{name} is no option and has no effect; {meant} is one."
            ));
        }
    }
}

/// The table as text, for `gpumem_help_env` and the docs.
pub(crate) fn help() -> String {
    let mut text = String::new();
    for (row, _) in TABLE {
        text.push_str(&format!(
            "{}\n    {}.\n    Values: {}. Default: {}.\n",
            row.name, row.meaning, row.values, row.default
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::table::bytes;
    use super::*;
    use gpumem_stacks::Stacks;

    fn read(pairs: &[(&str, &str)]) -> Options {
        Options::read(|name| {
            pairs
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn values_are_taken() {
        let options = read(&[
            ("GPUMEM_OUTPUT", "x.bin"),
            ("GPUMEM_STACKS", "python"),
            ("GPUMEM_STACK_SAMPLE", "512KiB"),
            ("GPUMEM_BACKWARD", "off"),
            ("GPUMEM_QUIET", "1"),
            ("GPUMEM_RING", "file"),
            ("GPUMEM_RING_SLOTS", "4096"),
            ("GPUMEM_SAMPLE_MS", "0"),
            ("GPUMEM_BOUNDED", "64MiB"),
            ("GPUMEM_COORDS", "dp=1,tp=0"),
            ("GPUMEM_CODE", "timm,mine.nets"),
            ("GPUMEM_LIST", "list"),
            ("GPUMEM_HOLDER", "socket"),
        ]);
        let coordinates = options.coordinates.as_ref().map(ToString::to_string);
        assert_eq!(coordinates.as_deref(), Some("dp=1,tp=0"));
        assert_eq!(options.code.as_deref(), Some("timm,mine.nets"));
        assert_eq!(options.list, Some("list".into()));
        assert_eq!(options.holder, Some("socket".into()));
        assert_eq!(options.bounded, Some(64 << 20));
        assert_eq!(options.stack_sample, core::num::NonZeroU64::new(512 << 10));
        assert_eq!(options.output, Some("x.bin".into()));
        assert_eq!(options.stacks, Stacks::Python);
        assert!(options.quiet && !options.backward);
        assert_eq!((options.ring, options.ring_slots), (Ring::File, 4096));
        assert_eq!(options.sample_every, None);
    }

    #[test]
    fn what_is_no_value_is_left_aside() {
        let odd = read(&[
            ("GPUMEM_STACKS", "all"),
            ("GPUMEM_RING", "4096"),
            ("GPUMEM_RING_SLOTS", "12"),
            ("GPUMEM_QUIET", "yes"),
            ("GPUMEM_BACKWARD", "no"),
            ("GPUMEM_SAMPLE_MS", "-1"),
            ("GPUMEM_LIST", ""),
            ("GPUMEM_HOLDER", ""),
        ]);
        assert_eq!(odd, Options::default());
    }

    #[test]
    fn sizes_are_whole_bytes_with_known_units() {
        for (text, expected) in [
            ("16777216", Some(16 << 20)),
            ("1 GiB", Some(1 << 30)),
            ("20000KiB", Some(20_000 << 10)),
            ("64MB", None),
            ("1.5GiB", None),
            ("", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
        for refused in ["15MiB", "none", "0"] {
            assert_eq!(read(&[("GPUMEM_BOUNDED", refused)]), Options::default());
        }
        for refused in ["4095", "2GiB", "0", "on"] {
            assert_eq!(
                read(&[("GPUMEM_STACK_SAMPLE", refused)]),
                Options::default()
            );
        }
    }

    #[test]
    fn the_help_names_each_option() {
        for (row, _) in TABLE {
            assert!(help().contains(row.name));
        }
    }
}
