//! NCCL's versions.

use std::fmt;

/// A version of NCCL. Ordered as versions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 2.
    pub major: u32,
    /// The part that decides about memory.
    pub minor: u32,
    /// Bug fixes.
    pub patch: u32,
}

impl Version {
    /// A version of NCCL 2.
    pub const fn two(minor: u32, patch: u32) -> Self {
        Self {
            major: 2,
            minor,
            patch,
        }
    }

    /// `2.30.7`, or `2.30`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| number.parse().ok());
        let version = Self {
            major: numbers.next()??,
            minor: numbers.next()??,
            patch: numbers.next().unwrap_or(Some(0))?,
        };
        (numbers.next().is_none() && version.major == 2).then_some(version)
    }

    /// `NCCL_VERSION_CODE` from 2.9 on.
    pub fn code(self) -> u32 {
        self.major * 10_000 + self.minor * 100 + self.patch
    }

    /// Whether it is 2.`minor` or later.
    pub(crate) fn from(self, minor: u32) -> bool {
        (self.major, self.minor) >= (2, minor)
    }

    /// Whether device memory comes from `cuMemCreate`, by NCCL's rules.
    ///
    /// `setting` is NCCL_CUMEM_ENABLE, if it is set to a number; `driver` is the driver's version
    /// (12020). In 2.18 it is off by default. From 2.19 on it is on with a driver of CUDA 12. 2.19
    /// to 2.23 also require GPUDirect RDMA, which the model assumes.
    pub fn uses_cumem(self, setting: Option<i64>, driver: u32) -> bool {
        if !self.from(18) || driver < 12_000 {
            return false;
        }
        match setting {
            Some(0) => false,
            Some(1) => true,
            _ => self.from(19),
        }
    }

    /// Whether connections are made when the first collective needs them.
    ///
    /// `setting` is NCCL_RUNTIME_CONNECT, if it is set to a number.
    pub fn connects_late(self, cumem: bool, setting: Option<i64>) -> bool {
        self.from(22) && cumem && setting != Some(0)
    }

    /// `MAXCHANNELS`.
    pub(crate) fn most_channels(self) -> u64 {
        if self.from(25) { 64 } else { 32 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_coded() {
        assert_eq!(Version::parse("2.30.7"), Some(Version::two(30, 7)));
        assert_eq!(Version::parse("2.18"), Some(Version::two(18, 0)));
        assert_eq!(Version::two(30, 7).code(), 23_007);
        for text in ["", "2", "2.x", "2.30.7.1", "3.0.0", "two"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn cumem_is_ncclcs_default_from_2_19_on() {
        let with = |minor, setting| Version::two(minor, 0).uses_cumem(setting, 12_020);
        assert_eq!(
            [17, 18, 19, 30].map(|v| with(v, None)),
            [false, false, true, true]
        );
        assert_eq!([17, 18, 30].map(|v| with(v, Some(1))), [false, true, true]);
        assert!(!with(30, Some(0)) && with(30, Some(-2)));
        assert!(!Version::two(30, 0).uses_cumem(Some(1), 11_080));
    }

    #[test]
    fn connections_are_late_from_2_22_on() {
        let late = |minor, cumem, setting| Version::two(minor, 0).connects_late(cumem, setting);
        assert!(!late(21, true, None) && late(22, true, None) && late(30, true, Some(1)));
        assert!(!late(30, false, None) && !late(30, true, Some(0)));
    }
}
