//! Files whose paths come from a capture: libraries, debug information, lines of source.
#![expect(clippy::disallowed_methods, reason = "this module opens files")]

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Types of file systems whose files show or change the state of the kernel and of processes: proc, sysfs, cgroup,
/// cgroup2, debugfs, tracefs, securityfs, configfs, efivarfs, pstore, bpf, devpts, selinuxfs, smackfs, binfmt_misc,
/// fusectl, nsfs, rpc_pipefs, xenfs.
const OF_THE_KERNEL: [u32; 19] = [
    0x0000_9fa0,
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x6265_6570,
    0xde5e_81e4,
    0x6165_676c,
    0xcafe_4a11,
    0x0000_1cd1,
    0xf97c_ff8c,
    0x4341_5d53,
    0x4249_4e4d,
    0x6573_5543,
    0x6e73_6673,
    0x6759_6969,
    0xabba_1974,
];

/// Opens an ordinary file. Opening it has no effect and does not wait: pipes, devices and files of the kernel are
/// refused before they are opened.
///
/// # Errors
/// The system's; and if it is not an ordinary file.
pub fn open(path: &Path) -> io::Result<File> {
    let place = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::PATH.bits() as i32)
        .open(path)?;
    let found = place.metadata()?;
    let kind = rustix::fs::fstatfs(&place)?.f_type as u32;
    if !found.is_file() || OF_THE_KERNEL.contains(&kind) {
        return Err(io::Error::other("not an ordinary file"));
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path_of_descriptor(&place))?;
    let opened = file.metadata()?;
    match (opened.dev(), opened.ino()) == (found.dev(), found.ino()) {
        true => Ok(file),
        false => Err(io::Error::other("it was replaced meanwhile")),
    }
}

/// The contents of a file with at most `most` bytes.
///
/// # Errors
/// The system's; and if it has more.
pub fn read(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    file.take(most.saturating_add(1))
        .read_to_end(&mut contents)?;
    match contents.len() as u64 > most {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(contents),
    }
}

/// The path of an open file without links.
///
/// # Errors
/// The system's, such as without `/proc`.
pub fn real_path(file: &File) -> io::Result<PathBuf> {
    std::fs::read_link(path_of_descriptor(file))
}

fn path_of_descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ordinary_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.py"), folder.path().join("b.py"));
        let pipe = folder.path().join("pipe");
        std::fs::write(&file, "x = 1\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let opened = open(&link).unwrap();
        assert_eq!(read(&opened, 6).unwrap(), b"x = 1\n");
        assert_eq!(real_path(&opened).unwrap(), file.canonicalize().unwrap());
        for refused in [
            &pipe,
            folder.path(),
            Path::new("/proc/self/environ"),
            Path::new("/proc/self/pagemap"),
            Path::new("/sys/kernel/notes"),
            Path::new("/dev/zero"),
            Path::new("/dev/stdin"),
            Path::new("/does/not/exist"),
        ] {
            assert!(open(refused).is_err(), "{}", refused.display());
        }
    }

    #[test]
    fn a_larger_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        std::fs::write(&path, [0; 100]).unwrap();
        let kind = |most| read(&open(&path).unwrap(), most).map_err(|error| error.kind());
        assert_eq!(kind(100).map(|all| all.len()), Ok(100));
        assert_eq!(kind(99), Err(io::ErrorKind::FileTooLarge));
    }
}
