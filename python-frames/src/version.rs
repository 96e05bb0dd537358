//! Version numbers of CPython.

use core::fmt;

/// A version, encoded as CPython's `PY_VERSION_HEX`: 0x030c01f0 is 3.12.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32);

impl Version {
    /// Reads the beginning of what `Py_GetVersion` returns, such as "3.13.0rc2+ (main, …".
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (major, rest) = number(text)?;
        let (minor, rest) = number(rest.strip_prefix(b".")?)?;
        let (micro, rest) = match rest.strip_prefix(b".") {
            Some(rest) => number(rest)?,
            None => (0, rest),
        };
        let (level, rest) = match rest {
            [b'a', rest @ ..] => (0xa, rest),
            [b'b', rest @ ..] => (0xb, rest),
            [b'r', b'c', rest @ ..] => (0xc, rest),
            _ => (0xf, &b"0"[..]),
        };
        let (serial, _) = number(rest)?;
        let byte = |value: u32| u8::try_from(value).ok().map(u32::from);
        Some(Self(
            byte(major)? << 24 | byte(minor)? << 16 | byte(micro)? << 8 | level << 4 | serial & 15,
        ))
    }

    /// Major and minor: (3, 12).
    pub fn minor(self) -> (u32, u32) {
        (self.0 >> 24, self.0 >> 16 & 0xff)
    }

    /// Whether it is an alpha or beta, whose structures may still have changed.
    pub fn is_unfinished(self) -> bool {
        self.0 >> 4 & 15 < 0xc
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.minor();
        write!(f, "{major}.{minor}.{}", self.0 >> 8 & 0xff)?;
        let serial = self.0 & 15;
        match self.0 >> 4 & 15 {
            0xa => write!(f, "a{serial}"),
            0xb => write!(f, "b{serial}"),
            0xc => write!(f, "rc{serial}"),
            _ => Ok(()),
        }
    }
}

fn number(text: &[u8]) -> Option<(u32, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(digits)?;
    let value = core::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_py_get_version_says() {
        for (text, hex, shown) in [
            (
                "3.8.18 (default, Nov  1 2023, 10:00:00) \n[GCC 12]",
                0x0308_12f0,
                "3.8.18",
            ),
            ("3.12.1 (main, …", 0x030c_01f0, "3.12.1"),
            ("3.11.2+ (heads/3.11", 0x030b_02f0, "3.11.2"),
            ("3.13.0rc2 (tags", 0x030d_00c2, "3.13.0rc2"),
            ("3.14.0a6+ free-threading build (x", 0x030e_00a6, "3.14.0a6"),
            ("3.15.0b1 (y", 0x030f_00b1, "3.15.0b1"),
        ] {
            let version = Version::parse(text.as_bytes()).unwrap();
            assert_eq!(version.0, hex, "{text}");
            assert_eq!(version.to_string(), shown);
        }
        assert!(Version::parse(b"3.14.0a6").unwrap().is_unfinished());
        assert!(!Version::parse(b"3.13.0rc2").unwrap().is_unfinished());
        for wrong in ["", "3", "three", "3.x", "3.12.", "999.1.2", "3.1.2a"] {
            assert_eq!(Version::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
