//! A file in place of a capture's ring that is not this ring, or not safe to read: it is refused with its reason.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::Command;

use gpumem_capture::*;

use crate::elsewhere::{count, killed};
use crate::support::*;

#[test]
fn what_is_not_the_captures_ring_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let rings = in_memory();
    let (path, ring) = killed(folder.path(), rings.path(), 300, true);
    let (_, foreign) = killed(other.path(), rings.path(), 200, true);
    let good = std::fs::read(&ring).unwrap();
    let put = |bytes: &[u8]| {
        let _ = std::fs::remove_file(&ring);
        std::fs::write(&ring, bytes).unwrap();
        std::fs::set_permissions(&ring, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    let aside = rings.path().join("aside");
    let refused = |plant: &dyn Fn(), why: &str| {
        put(&good);
        plant();
        let (events, integrity) = count(&path);
        assert_eq!(events, 300, "{why}");
        match &integrity.ring {
            RingState::Refused(found, since) => {
                assert!(found.contains(why) && since.0 > 0, "{found}: {why}");
            }
            other => panic!("{why}: {other:?}"),
        }
        assert_eq!(merge(&path).unwrap(), Merged::Nothing, "{why}");
        let _ = std::fs::remove_file(&ring).or_else(|_| std::fs::remove_dir(&ring));
        let _ = std::fs::remove_file(&aside);
    };
    refused(
        &|| {
            std::fs::rename(&ring, &aside).unwrap();
            symlink(&aside, &ring).unwrap();
        },
        "symbolic link",
    );
    refused(
        &|| std::fs::hard_link(&ring, &aside).unwrap(),
        "more than one name",
    );
    let world = std::fs::Permissions::from_mode(0o644);
    refused(
        &|| std::fs::set_permissions(&ring, world.clone()).unwrap(),
        "others than its owner",
    );
    if std::fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0) {
        let stranger = || std::os::unix::fs::chown(&ring, Some(65_534), None).unwrap();
        refused(&stranger, "belongs to user 65534");
    }
    refused(
        &|| put(&std::fs::read(&foreign).unwrap()),
        "another capture",
    );
    refused(&|| put(&good[..good.len() - 4096]), "cut off");
    refused(&|| put(&good[..100]), "cut off");
    refused(&|| put(b""), "cut off");
    let with = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    refused(&|| put(&with(0)), "no ring");
    refused(&|| put(&with(20)), "damaged");
    refused(&|| put(&with(2048 + 70)), "damaged");
    let mut old = good.clone();
    // Another boot, with a valid checksum.
    old[2048 + 64] ^= 1;
    let crc = crc32fast::hash(&old[2048..2048 + 508]);
    old[2048 + 508..2048 + 512].copy_from_slice(&crc.to_le_bytes());
    refused(&|| put(&old), "before this machine was started");
    refused(
        &|| {
            std::fs::remove_file(&ring).unwrap();
            let status = Command::new("mkfifo")
                .args(["-m", "600"])
                .arg(&ring)
                .status();
            assert!(status.unwrap().success());
        },
        "not an ordinary file",
    );
    refused(
        &|| {
            std::fs::remove_file(&ring).unwrap();
            std::fs::create_dir(&ring).unwrap();
            std::fs::set_permissions(&ring, std::fs::Permissions::from_mode(0o700)).unwrap();
        },
        "not an ordinary file",
    );
}
