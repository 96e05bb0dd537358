//! Behaviour of all stores; the failures of a real server are in `tests/test_fleet_store.py`.

use object_store::memory::InMemory;

use super::patience::Patience;
use super::remote::Remote;
use super::{Created, Kind, Store, StoreError};

fn stores() -> Vec<(Store, Option<tempfile::TempDir>)> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a/b");
    let local = Store::at(path.to_str().expect("UTF-8"), Patience::default()).expect("a store");
    let remote = Remote::over(Box::new(InMemory::new()), "s3://bucket", "a/b/");
    let remote = Store {
        place: "s3://bucket/a/b".into(),
        kind: Kind::Remote(Box::new(remote)),
    };
    vec![(local, Some(folder)), (remote, None)]
}

#[test]
fn files_are_what_was_written_last() {
    for (store, _folder) in stores() {
        assert_eq!(store.list("").expect("listed"), []);
        store.put("run=a/x", b"one").expect("written");
        store.put("run=a/x", b"three").expect("written");
        store.put("run=ab/y", b"").expect("written");
        assert_eq!(store.get("run=a/x").expect("read"), b"three");
        assert_eq!(store.get_range("run=a/x", 1..3).expect("read"), b"hr");
        let paths = |prefix| -> Vec<String> {
            let found = store.list(prefix).expect("listed").into_iter();
            found.map(|found| found.path).collect()
        };
        assert_eq!(paths(""), ["run=a/x", "run=ab/y"]);
        assert_eq!(paths("run=a/"), ["run=a/x"]);
        store.delete("run=a/x").expect("deleted");
        store.delete("run=a/x").expect("deleted again");
        assert!(store.get("run=a/x").expect_err("gone").is_not_found());
        assert_eq!(paths(""), ["run=ab/y"]);
    }
}

#[test]
fn of_two_who_make_a_file_one_does() {
    for (store, _folder) in stores() {
        assert_eq!(store.create("x", b"mine").expect("made"), Created::New);
        assert_eq!(store.create("x", b"yours").expect("seen"), Created::Exists);
        assert_eq!(store.get("x").expect("read"), b"mine");
    }
}

#[test]
fn large_files_go_in_pieces_and_half_of_one_is_not_there() {
    let contents: Vec<u8> = (0..20_000_000_u32).map(|number| number as u8).collect();
    for (store, _folder) in stores() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &contents).expect("written");
        store.put_file("x", file.path()).expect("uploaded");
        store.put("y", &contents).expect("uploaded");
        for found in store.list("").expect("listed") {
            assert_eq!(found.bytes, contents.len() as u64);
            store.download(&found, file.path()).expect("downloaded");
            assert!(std::fs::read(file.path()).expect("read") == contents);
        }
        assert!(store.put_file("z", "/nowhere/at/all".as_ref()).is_err());
        if let Kind::Remote(remote) = &store.kind {
            let refused = || Err(StoreError::NotFound("the second piece".into()));
            let pieces = [Ok(contents.clone()), refused()];
            let done = remote.put_pieces("z", &mut pieces.into_iter());
            assert!(
                done.expect_err("refused")
                    .to_string()
                    .contains("second piece")
            );
        }
        assert!(store.get("z").expect_err("not there").is_not_found());
    }
}

#[test]
fn a_writer_that_was_killed_leaves_nothing_that_a_reader_sees() {
    let (store, folder) = stores().remove(0);
    let folder = folder.expect("a folder").keep().join("a/b");
    store.put("run=a/x", b"whole").expect("written");
    let host = crate::layout::name_of(&super::host());
    let of = |pid: u32| folder.join(format!("run=a/_y.parquet@{host}@{pid}@0.tmp"));
    // No process has the number 0.
    std::fs::write(of(0), b"half").expect("written");
    std::fs::write(of(std::process::id()), b"half").expect("written");
    assert_eq!(store.list("").expect("listed").len(), 1);
    store.sweep().expect("swept");
    assert!(!of(0).exists() && of(std::process::id()).exists());
    std::fs::remove_dir_all(folder).expect("removed");
}
