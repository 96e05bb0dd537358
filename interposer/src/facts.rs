//! What the capture says of its process.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use gpumem_capture::{DefKind, ProcessKey, Writer};
use gpumem_stacks::Stacks;

use crate::driver;
use crate::options::Options;
use crate::output::Rank;

/// This machine's name.
pub(crate) fn host() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is valid for its length, less one for the NUL.
    let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    if result != 0 {
        return String::new();
    }
    let end = name.iter().position(|&b| b == 0).unwrap_or(0);
    String::from_utf8_lossy(name.get(..end).unwrap_or(&[])).into_owned()
}

/// An argument as a shell needs it written.
pub(crate) fn quoted(argument: &OsStr) -> String {
    let text = argument.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%^".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The command line, quoted for a shell.
fn command() -> String {
    let bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    let words = bytes
        .split(|&b| b == 0)
        .map(|word| quoted(&OsString::from_vec(word.to_vec())));
    words.collect::<Vec<_>>().join(" ")
}

/// Writes the facts of this process.
pub(crate) fn write(writer: &'static Writer, options: &Options, rank: Option<&Rank>) {
    let tell = |key: &str, value: &[u8]| {
        let length = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes();
        // Long command lines are cut, not lost.
        let value = value.get(..8192).unwrap_or(value);
        let parts = [
            &length(key.as_bytes())[..],
            key.as_bytes(),
            &length(value),
            value,
        ];
        let _ = writer.definition(DefKind::PROCESS, &parts);
    };
    let path = |path: std::io::Result<std::path::PathBuf>| {
        path.map(|p| p.into_os_string().as_bytes().to_vec())
            .unwrap_or_default()
    };
    tell(ProcessKey::COMMAND, command().as_bytes());
    tell(
        ProcessKey::EXECUTABLE,
        &path(std::fs::read_link("/proc/self/exe")),
    );
    tell(ProcessKey::DIRECTORY, &path(std::env::current_dir()));
    tell(ProcessKey::HOST, host().as_bytes());
    if let Some(rank) = rank {
        tell(ProcessKey::RANK, rank.rank.to_string().as_bytes());
        if let Some(size) = rank.world_size {
            tell(ProcessKey::WORLD_SIZE, size.to_string().as_bytes());
        }
    }
    if let Some(version) = driver::version() {
        tell(ProcessKey::DRIVER_VERSION, version.to_string().as_bytes());
    }
    tell(
        ProcessKey::RECORDER_VERSION,
        env!("CARGO_PKG_VERSION").as_bytes(),
    );
    let stacks = match options.stacks {
        Stacks::Mixed => "mixed",
        Stacks::Python => "python",
        Stacks::Native => "native",
        Stacks::Off => "off",
    };
    tell(ProcessKey::STACKS, stacks.as_bytes());
    if let Some(every) = options
        .stack_sample
        .filter(|_| options.stacks != Stacks::Off)
    {
        tell(ProcessKey::STACK_SAMPLE, every.to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_needs_them() {
        assert_eq!(quoted(OsStr::new("train.py")), "train.py");
        assert_eq!(quoted(OsStr::new("--lr=1e-3")), "--lr=1e-3");
        assert_eq!(quoted(OsStr::new("")), "''");
        assert_eq!(quoted(OsStr::new("it's here")), r"'it'\''s here'");
    }
}
