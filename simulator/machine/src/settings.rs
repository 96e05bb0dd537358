//! Reads one setting: its default, values for single devices, and warnings about invalid values.

use crate::parse_size;

/// Reads settings and collects warnings about invalid values.
pub(crate) struct Reader<L> {
    pub(crate) lookup: L,
    pub(crate) complaints: Vec<String>,
}

impl<L: Fn(&str) -> Option<String>> Reader<L> {
    /// A setting, or `default` if it is missing or invalid.
    pub(crate) fn get<T>(
        &mut self,
        name: &str,
        default: T,
        parse: impl Fn(&str) -> Option<T>,
    ) -> T {
        let Some(text) = (self.lookup)(name).filter(|text| !text.trim().is_empty()) else {
            return default;
        };
        parse(text.trim()).unwrap_or_else(|| {
            self.complaints
                .push(format!("{name}={text} cannot be read; using the default"));
            default
        })
    }
}

impl<L: Fn(&str) -> Option<String>> Reader<L> {
    /// A setting with an optional value for each device.
    pub(crate) fn per_device<T: Clone>(
        &mut self,
        name: &str,
        default: T,
        parse: impl Fn(&str) -> Option<T>,
    ) -> PerDevice<T> {
        let default = PerDevice::of_all(default);
        self.get(name, default.clone(), |text| {
            default.clone().parse_over(text, &parse)
        })
    }
}

/// Parses a size in bytes.
pub(crate) fn size(text: &str) -> Option<u64> {
    parse_size(text).ok()
}

/// Parses a number from 1 to `most`.
pub(crate) fn number(text: &str, most: u32) -> Option<u32> {
    let count = text.trim().parse().ok();
    count.filter(|count| (1..=most).contains(count))
}

/// `90` or `9.0`.
pub(crate) fn compute_capability(text: &str) -> Option<(u32, u32)> {
    if let Some((major, minor)) = text.split_once('.') {
        return Some((major.parse().ok()?, minor.parse().ok()?));
    }
    let both: u32 = text.parse().ok()?;
    (both >= 10).then_some((both / 10, both % 10))
}

/// A figure for each device: one for all devices, and exceptions.
#[derive(Clone, Debug)]
pub(crate) struct PerDevice<T> {
    each: T,
    exceptions: Vec<(u32, T)>,
}

impl<T: Clone> PerDevice<T> {
    /// The same figure for every device.
    pub(crate) fn of_all(each: T) -> Self {
        Self {
            each,
            exceptions: Vec::new(),
        }
    }

    /// Reads `text` over the current figures: a figure for all devices, and `1=…` for single
    /// devices.
    pub(crate) fn parse_over(
        mut self,
        text: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<Self> {
        for part in text.split(',') {
            match part.split_once('=') {
                Some((index, figure)) => self
                    .exceptions
                    .push((index.trim().parse().ok()?, parse(figure.trim())?)),
                None => self.each = parse(part.trim())?,
            }
        }
        Some(self)
    }

    /// The figure of a device.
    pub(crate) fn of(&self, index: u32) -> T {
        let exception = self.exceptions.iter().rev().find(|(i, _)| *i == index);
        exception.map_or(&self.each, |(_, figure)| figure).clone()
    }
}
