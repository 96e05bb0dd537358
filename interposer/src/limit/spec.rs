//! The syntax of GPUMEM_LIMIT: `8GiB`, `0=8GiB,1=16GiB`.

/// The maximum number of devices with a limit.
pub(crate) const DEVICES: usize = 64;

/// The limits of a text, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spec {
    /// The limit of every device that is not named.
    pub(crate) every: Option<u64>,
    /// The limits of devices by ordinal.
    pub(crate) named: Vec<(u8, u64)>,
}

impl Spec {
    /// The limit of a device.
    pub(crate) fn of(&self, device: u8) -> Option<u64> {
        let named = self.named.iter().find(|(named, _)| *named == device);
        named.map(|(_, bytes)| *bytes).or(self.every)
    }

    /// Reads a text; `None` if it is invalid, or names a device twice.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut spec = Self::default();
        for part in text.split(',') {
            match part.split_once('=') {
                None => {
                    if spec.every.replace(of_card(part)?).is_some() {
                        return None;
                    }
                }
                Some((device, bytes)) => {
                    let device: u8 = device.trim().parse().ok()?;
                    let twice = spec.named.iter().any(|(named, _)| *named == device);
                    if usize::from(device) >= DEVICES || twice {
                        return None;
                    }
                    spec.named.push((device, of_card(bytes)?));
                }
            }
        }
        Some(spec)
    }
}

/// A size that a card can have: `5` does not mean 5 GiB.
fn of_card(text: &str) -> Option<u64> {
    size(text).filter(|bytes| *bytes >= 1 << 20)
}

/// A size of at least a byte: `8GiB`, `1.5 GiB`, `24GB` (10^9), `1073741824`.
pub(crate) fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit: u128 = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // Fractions of a byte are invalid, and a point needs digits on both sides.
    let has_fraction = number.contains('.');
    if has_fraction && (fraction.is_empty() || fraction.len() > 9 || unit == 1) {
        return None;
    }
    let mut bytes = u128::from(whole.parse::<u64>().ok()?).checked_mul(unit)?;
    if has_fraction {
        let parts = u128::from(fraction.parse::<u32>().ok()?);
        bytes += parts * unit / 10u128.pow(fraction.len() as u32);
    }
    u64::try_from(bytes).ok().filter(|bytes| *bytes != 0)
}

/// A size in its shortest exact form.
pub(crate) fn written(bytes: u64) -> String {
    const UNITS: [(u64, &str); 8] = [
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
        (1_000_000_000_000, "TB"),
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
        (1_000, "KB"),
    ];
    let in_unit = |(unit, name): &(u64, &str)| {
        (bytes != 0 && bytes.is_multiple_of(*unit)).then(|| format!("{}{name}", bytes / unit))
    };
    let shortest = UNITS.iter().filter_map(in_unit).min_by_key(String::len);
    shortest.unwrap_or_else(|| bytes.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_both_kinds() {
        for (text, bytes) in [
            ("8GiB", Some(8 << 30)),
            ("8 GiB ", Some(8 << 30)),
            ("1.5GiB", Some(3 << 29)),
            ("24GB", Some(24_000_000_000)),
            ("512MiB", Some(512 << 20)),
            ("1024", Some(1024)),
            ("0", None),
            ("0GiB", None),
            ("", None),
            ("GiB", None),
            ("8G", None),
            ("8gib", None),
            ("-8GiB", None),
            ("1.GiB", None),
            (".5GiB", None),
            ("1.5", None),
            ("1.2.3GiB", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
    }

    #[test]
    fn devices_are_named_or_all_meant() {
        let every = Spec::parse("8GiB").expect("a limit");
        assert_eq!((every.of(0), every.of(7)), (Some(8 << 30), Some(8 << 30)));
        let two = Spec::parse("0=8GiB, 1=16GiB").expect("two limits");
        assert_eq!((two.of(0), two.of(1)), (Some(8 << 30), Some(16 << 30)));
        assert_eq!(two.of(2), None);
        let mixed = Spec::parse("24GiB,3=1GiB").expect("one named, all others");
        assert_eq!((mixed.of(3), mixed.of(0)), (Some(1 << 30), Some(24 << 30)));
        for odd in [
            "",
            "0=8GiB,0=9GiB",
            "8GiB,9GiB",
            "64=1GiB",
            "0=",
            "=8GiB",
            "a=8GiB",
            "8GiB,",
            "5",
            "0=5",
            "1023KiB",
        ] {
            assert_eq!(Spec::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_size_is_written_exactly() {
        for text in ["8GiB", "1536MiB", "24GB", "1TiB", "3KiB", "1"] {
            assert_eq!(written(size(text).expect("a size")), text);
        }
    }
}
