//! Why an interpreter's frames are not read.

use core::ffi::CStr;
use core::fmt;

use super::rows;
use super::version::Version;

/// Why an interpreter is declined.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Declined {
    /// The result of `Py_GetVersion` cannot be parsed.
    NoVersion,
    /// A version that is not in the table.
    Version(Version),
    /// An alpha or beta.
    Unfinished(Version),
    /// A build without the GIL.
    FreeThreaded(Version),
    /// A build with modified structures.
    Layout(Version),
    /// A symbol that is needed is not exported.
    Symbol(Version, &'static CStr),
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVersion => write!(f, "the interpreter does not tell its version"),
            Self::Version(version) => {
                let ((major, oldest), (_, newest)) = (rows::OLDEST, rows::NEWEST);
                write!(
                    f,
                    "CPython {version} is not among {major}.{oldest} to {major}.{newest}"
                )
            }
            Self::Unfinished(version) => write!(f, "CPython {version} is not a release"),
            Self::FreeThreaded(version) => {
                write!(f, "CPython {version} is a free-threaded build (no GIL)")
            }
            Self::Layout(version) => write!(
                f,
                "CPython {version} is built with structures of its own (a debug build?)"
            ),
            Self::Symbol(version, name) => write!(
                f,
                "CPython {version} does not export {}",
                name.to_str().unwrap_or_default()
            ),
        }
    }
}

impl core::error::Error for Declined {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_one_line_each() {
        let version = Version(0x030f_01f0);
        for (why, part) in [
            (Declined::NoVersion, "version"),
            (
                Declined::Version(version),
                "3.15.1 is not among 3.8 to 3.14",
            ),
            (Declined::FreeThreaded(version), "free-threaded"),
            (
                Declined::Symbol(version, c"PyCode_Type"),
                "does not export PyCode_Type",
            ),
        ] {
            let text = why.to_string();
            assert!(text.contains(part) && !text.contains('\n'), "{text}");
        }
    }
}
