//! Reading one setting: its default, a device's own, what is wrong with it.

use crate::parse_size;

/// Reads settings one by one, and keeps what is wrong with them.
pub(crate) struct Reader<L> {
    pub(crate) lookup: L,
    pub(crate) complaints: Vec<String>,
}

impl<L: Fn(&str) -> Option<String>> Reader<L> {
    /// A setting, or `default` where there is none that can be read.
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
    /// A setting that each device may have its own of.
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

/// A size in bytes.
pub(crate) fn size(text: &str) -> Option<u64> {
    parse_size(text).ok()
}

/// A number of things, from 1 to `most`.
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

/// A figure for each device: one for all, and exceptions.
#[derive(Clone, Debug)]
pub(crate) struct PerDevice<T> {
    each: T,
    exceptions: Vec<(u32, T)>,
}

impl<T: Clone> PerDevice<T> {
    /// The same for every device.
    pub(crate) fn of_all(each: T) -> Self {
        Self {
            each,
            exceptions: Vec::new(),
        }
    }

    /// What `text` says over it: a figure for all, and `1=…` for single devices.
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

    /// A device's.
    pub(crate) fn of(&self, index: u32) -> T {
        let exception = self.exceptions.iter().rev().find(|(i, _)| *i == index);
        exception.map_or(&self.each, |(_, figure)| figure).clone()
    }
}
