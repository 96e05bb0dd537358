//! Captures from others: what they must not read, overwrite or use up.

use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use gpumem_capture::*;
use tempfile::tempdir;

use crate::captures::Captures;
use crate::run::{Screen, analyze, program, run, run_on, stderr, stdout};
use crate::synthetic::{M, Synthetic};

fn names(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().expect("a folder");
    let mut names: Vec<_> = entries
        .map(|entry| {
            entry
                .expect("a file")
                .file_name()
                .into_string()
                .expect("a plain name")
        })
        .collect();
    names.sort();
    names
}

#[test]
fn a_link_beside_a_capture_is_replaced_and_its_target_stays() {
    let captures = Captures::copied(&["demo"]);
    let file = captures.path("demo");
    let target = captures.folder().join("target");
    for (command, beside) in [
        (&[][..], "demo.svg"),
        (&["flamegraph"], "demo.svg"),
        (&["timeline"], "demo.timeline.svg"),
        (&["html"], "demo.html"),
        (&["export", "csv"], "demo.csv"),
        (&["export", "sqlite"], "demo.sqlite"),
    ] {
        std::fs::write(&target, "precious").expect("a file");
        let link = captures.folder().join(beside);
        let _ = std::fs::remove_file(&link);
        symlink(&target, &link).expect("a link");
        let output = analyze(command, &file);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{command:?}: {}",
            stderr(&output)
        );
        assert_eq!(
            std::fs::read(&target).expect("the target"),
            b"precious",
            "{command:?}"
        );
        let made = link.symlink_metadata().expect("a file");
        assert!(made.is_file(), "{command:?}");
        assert_eq!(made.permissions().mode() & 0o777, 0o600, "{command:?}");
    }
}

#[test]
fn nothing_is_written_unasked_into_a_folder_of_another_user() {
    let captures = Captures::copied(&["demo"]);
    // Only root can give a folder away.
    if chown(captures.folder(), Some(4711), None).is_err() {
        return;
    }
    let file = captures.path("demo");
    let output = analyze(&[], &file);
    assert_eq!(names(captures.folder()), ["demo.bin"]);
    let said = stderr(&output);
    assert!(
        said.contains("belongs to another user (4711)") && said.contains("-o"),
        "{said}"
    );
    let output = analyze(&["html"], &file);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("-o names another file"),
        "{}",
        stderr(&output)
    );
    assert_eq!(names(captures.folder()), ["demo.bin"]);
    let own = tempdir().expect("a folder");
    let page = own.path().join("page.html");
    let output = analyze(&["html", "-o", page.to_str().expect("a plain path")], &file);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(page.exists());
}

/// A capture that names lines of these files.
fn naming(folder: &Path, directory: &Path, files: &[&'static str]) -> PathBuf {
    let mut capture = Synthetic::new(folder);
    capture.fact("directory", directory.to_str().expect("a plain path"));
    for (number, file) in (1..).zip(files) {
        let line = capture.python(&[(file, "<module>", 1, true)]);
        capture.alloc(Level::TENSOR, number << 32, M, line, StackId::NONE);
    }
    capture.finish()
}

#[test]
fn a_capture_shows_only_source_below_the_folder_of_its_run() {
    let folder = tempdir().expect("a folder");
    let run_folder = folder.path().join("run");
    std::fs::create_dir_all(run_folder.join(".ssh")).expect("a folder");
    let put = |name: &str, text: &str| std::fs::write(run_folder.join(name), text).expect("a file");
    put("train.py", "the_own_line\n");
    put(".ssh/id_rsa", "SECRET-KEY\n");
    put("../outside.py", "SECRET-OUTSIDE\n");
    symlink("../outside.py", run_folder.join("link.py")).expect("a link");
    let file = naming(
        folder.path(),
        &run_folder,
        &[
            "train.py",
            ".ssh/id_rsa",
            "../outside.py",
            "link.py",
            "/etc/passwd",
            "/proc/self/environ",
            "/proc/self/pagemap",
        ],
    );
    // In separate processes, because what is permitted is one setting of a process.
    let shown = |arguments: &[&str]| {
        let output = program().args(arguments).arg(&file).output();
        let output = output.expect("the program");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    for command in [
        &["lines"][..],
        &[],
        &["flamegraph", "-o", "-"],
        &["html", "-o", "-"],
        &["ledger"],
    ] {
        let text = shown(command);
        for secret in ["SECRET", "root:x:0", "PATH="] {
            assert!(!text.contains(secret), "{command:?}: {secret}: {text}");
        }
    }
    assert!(shown(&["lines"]).contains("the_own_line"));
    let root = folder.path().to_str().expect("a plain path");
    assert!(shown(&["lines", "--source-root", root]).contains("SECRET-OUTSIDE"));
    let nothing = shown(&["lines", "--no-source"]);
    assert!(!nothing.contains("the_own_line"), "{nothing}");
    let output = program()
        .arg("lines")
        .arg(&file)
        .env("GPUMEM_NO_SOURCE", "1")
        .output()
        .expect("the program");
    assert!(!stdout(&output).contains("the_own_line") && stdout(&output).contains("train.py:1"));
}

#[test]
fn source_is_not_read_for_another_user_or_another_machine() {
    let folder = tempdir().expect("a folder");
    std::fs::write(folder.path().join("train.py"), "the_own_line\n").expect("a file");
    let file = naming(folder.path(), folder.path(), &["train.py"]);
    let lines = |more: &[&str]| stdout(&analyze(&[&["lines"], more].concat(), &file));
    assert!(lines(&[]).contains("the_own_line"));
    let mut bytes = std::fs::read(&file).expect("the capture");
    // The boot id in both copies of the header, by capture/SPEC.md.
    for copy in [0, 2048] {
        bytes[copy + 64] ^= 1;
        let mut check = flate2::Crc::new();
        check.update(&bytes[copy..copy + 508]);
        bytes[copy + 508..copy + 512].copy_from_slice(&check.sum().to_le_bytes());
    }
    std::fs::write(&file, &bytes).expect("the capture");
    assert!(!lines(&[]).contains("the_own_line"), "another boot");
    let root = folder.path().to_str().expect("a plain path");
    assert!(lines(&["--source-root", root]).contains("the_own_line"));
    let other = folder.path().join("other");
    std::fs::create_dir(&other).expect("a folder");
    let file = naming(&other, folder.path(), &["train.py"]);
    if chown(&file, Some(4711), None).is_ok() {
        let text = stdout(&run(["lines".as_ref(), file.as_os_str()]));
        assert!(
            text.contains("train.py:1") && !text.contains("the_own_line"),
            "{text}"
        );
    }
}

#[test]
fn large_work_of_a_small_file_ends_with_one_line() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("report.bin");
    let origin = Origin {
        started_wall_ns: 0,
        nonce: 7,
    };
    let mut writer = OfflineWriter::create(&path, origin, 1 << 16).expect("a new file");
    for number in 0..200_000_u64 {
        let event = Event {
            kind: EventKind::ALLOC,
            level: Level::TENSOR,
            device: DeviceOrdinal(0),
            ptr: (number + 1) << 12,
            bytes: 512,
            ..Event::default()
        };
        writer.event(&event).expect("written");
    }
    writer.finish(Nanos(1)).expect("written");
    let run = |most: &str| {
        program()
            .args(["--max-memory", most])
            .arg(&path)
            .output()
            .expect("the program")
    };
    let output = run("8MiB");
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("8.00 MiB of memory: --max-memory allows more"),
        "{said}"
    );
    assert_eq!(names(folder.path()), ["report.bin"]);
    assert_ne!(run("2GiB").status.code(), Some(1));
}

#[test]
fn what_to_do_about_missing_source_is_said_on_a_terminal() {
    let folder = tempdir().expect("a folder");
    std::fs::write(folder.path().join("train.py"), "the_own_line\n").expect("a file");
    let [inside, outside] = ["inside", "outside"].map(|name| {
        let own = folder.path().join(name);
        std::fs::create_dir(&own).expect("a folder");
        own
    });
    let screen = Screen {
        columns: Some(300),
        ..Screen::default()
    };
    let said = |file: &Path, command: &[&str]| {
        let words = command.iter().map(OsStr::new).chain([file.as_os_str()]);
        let text = stdout(&run_on(screen, words));
        let line = text
            .lines()
            .find(|line| line.starts_with("No source lines"));
        line.unwrap_or_default().to_owned()
    };
    let whole = naming(&inside, folder.path(), &["train.py"]);
    let elsewhere = naming(&outside, &outside, &["../train.py"]);
    for command in [&["lines"][..], &[]] {
        assert_eq!(said(&whole, command), "");
        let advice = said(&elsewhere, command);
        assert!(advice.contains("outside the run's folders"), "{advice}");
        assert!(advice.contains("--source-root"), "{advice}");
    }
}

#[test]
fn events_that_no_machine_can_have_are_left_out_and_named() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let line = capture.python(&[("train.py", "<module>", 1, true)]);
    capture.alloc(Level::TENSOR, 0x1000, M, line, StackId::NONE);
    for number in 1..5 {
        capture.alloc(
            Level::TENSOR,
            number << 40,
            u64::MAX - 5,
            line,
            StackId::NONE,
        );
    }
    for number in 5..100 {
        capture.alloc(Level::TENSOR, number << 40, 1 << 50, line, StackId::NONE);
    }
    let file = capture.finish();
    for command in [
        &["lines"][..],
        &["report", "--all"],
        &[],
        &["lines", "--by", "size"],
        &["lines", "--of", "temporary"],
        &["tree"],
    ] {
        let output = analyze(command, &file);
        let (text, code) = (stdout(&output) + &stderr(&output), output.status.code());
        assert_eq!(code, Some(3), "{command:?}: {text}");
        // Four, and those above 2^56 live bytes.
        assert!(
            text.contains("36 events with more bytes than a machine can have"),
            "{text}"
        );
    }
}

#[test]
fn a_source_root_that_is_no_folder_is_refused_in_one_line() {
    let captures = Captures::copied(&["tiny"]);
    let output = analyze(
        &["lines", "--source-root", "/does/not/exist"],
        &captures.path("tiny"),
    );
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert_eq!(
        said,
        "gpumem-analyze: --source-root /does/not/exist: no such folder\n"
    );
}
