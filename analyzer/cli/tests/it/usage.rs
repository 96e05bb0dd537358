//! Wrong command lines: the first line shows the correct form, or the fault and its place. The exit code is 2 for the
//! command line, 1 for a file.
//!
//! These tests find wrong advice, a usage of twenty lines instead of an answer, and exit code 0.

use std::path::Path;
use std::process::Output;

use tempfile::{TempDir, tempdir};

use crate::captures::{contents, none};
use crate::run::{program, run, stderr, stdout};

/// What is typed, and what would have worked. `@` stands for the folder of the files.
const MEANT: [(&str, &str); 25] = [
    ("line @report.bin", "lines @report.bin"),
    ("Lines @report.bin", "lines @report.bin"),
    ("summery @report.bin", "report --all @report.bin"),
    ("flame @report.bin", "flamegraph @report.bin"),
    ("flamegraf @report.bin", "flamegraph @report.bin"),
    ("leak @report.bin", "leaks @report.bin"),
    ("hint @report.bin", "report --hints @report.bin"),
    ("fragment @report.bin", "ledger --pool @report.bin"),
    ("time-line @report.bin", "timeline @report.bin"),
    ("temp @report.bin", "lines --of temporary @report.bin"),
    ("thread @report.bin", "lines --by thread @report.bin"),
    ("@report.bin lines", "lines @report.bin"),
    ("@report.bin lines --at end", "lines @report.bin --at end"),
    ("@report.bin line", "lines @report.bin"),
    (
        "@report.bin summary --format json",
        "report --all @report.bin --format json",
    ),
    (
        "lines --json @report.bin",
        "lines --format json @report.bin",
    ),
    (
        "report --all @report.bin --json",
        "report --all @report.bin --format json",
    ),
    ("line --json @report.bin", "lines --format json @report.bin"),
    (
        "@report.bin leaks --json",
        "leaks @report.bin --format json",
    ),
    ("--at end @report.bin", "lines --at end @report.bin"),
    ("@report.bin --at end", "lines @report.bin --at end"),
    ("@report.bin --device 0", "lines @report.bin --device 0"),
    (
        "--level driver @report.bin",
        "lines --level driver @report.bin",
    ),
    (
        "@report.bin --phase backward",
        "lines @report.bin --phase backward",
    ),
    ("line '@my report.bin'", "lines '@my report.bin'"),
];

const ONE_GPU: &str = "--device 5: the capture has only GPU 0";

/// What is typed, the first line (`*`: any text), and the exit code.
const REFUSED: [(&str, &str, i32); 44] = [
    (
        "line",
        "no file or command is named line: did you mean `gpumem-analyze lines report.bin`?",
        2,
    ),
    (
        "bogus @report.bin",
        "no file or command is named bogus: gpumem-analyze --help lists the commands",
        2,
    ),
    ("lines --device 5 @report.bin", ONE_GPU, 2),
    ("ledger --device 5 @report.bin", ONE_GPU, 2),
    ("leaks --device 5 @report.bin", ONE_GPU, 2),
    ("lines --by size --device 5 @report.bin", ONE_GPU, 2),
    ("lines --by thread --device 5 @report.bin", ONE_GPU, 2),
    ("tree --device 5 @report.bin", ONE_GPU, 2),
    ("timeline --device 5 --format text @report.bin", ONE_GPU, 2),
    ("ledger --pool --device 5 @report.bin", ONE_GPU, 2),
    ("flamegraph --device 5 @report.bin", ONE_GPU, 2),
    ("export csv --device 5 -o - @report.bin", ONE_GPU, 2),
    (
        "lines --device x @report.bin",
        "error: invalid value 'x' for '--device <N>': invalid digit found in string",
        2,
    ),
    (
        "lines --at noon @report.bin",
        "error: invalid value 'noon' for '--at <POINT>': expected peak, end, oom, *",
        2,
    ),
    (
        "lines --levle driver @report.bin",
        "error: unexpected argument '--levle' found",
        2,
    ),
    (
        "lines",
        "error: the following required arguments were not provided:",
        2,
    ),
    (
        "lines --by size --of kept @report.bin",
        "--by size and --by thread show allocated and live blocks: omit --of, --thread, --phase and --step",
        2,
    ),
    (
        "lines --by scope --at end @report.bin",
        "--by scope shows all scopes of the run: of the options that select memory it has --level and --rank",
        2,
    ),
    (
        "lines --by category --of growing @report.bin",
        "--by category goes with --of live and --of allocated only, without --thread",
        2,
    ),
    (
        "lines --of temporary --phase backward @report.bin",
        "--of temporary by line has no phases: use --by phase, or omit --phase and --step",
        2,
    ),
    (
        "lines --of allocated --step 2 @report.bin",
        "--step goes with --of live only, without --thread",
        2,
    ),
    (
        "tree --of temporary --at end @report.bin",
        "--of temporary is about the whole run: omit --at",
        2,
    ),
    (
        "flamegraph --within 3 @report.bin",
        "--within goes with --of temporary",
        2,
    ),
    (
        "lines --of kept --category parameter @report.bin",
        "--category goes with --of live and --of allocated only, without --thread",
        2,
    ),
    (
        "lines --all @report.bin",
        "--all goes with --by size and --by scope",
        2,
    ),
    (
        "tree --of kept --thread 1 @report.bin",
        "--thread goes with --of live and --of allocated only",
        2,
    ),
    (
        "ledger --pool --at peak=driver @report.bin",
        "--pool has one peak: use --at peak",
        2,
    ),
    (
        "--sysroot / lines @report.bin",
        "put the options of a command after the command",
        2,
    ),
    (
        "report --hints --symbols / @report.bin",
        "error: the argument '--hints' cannot be used with '--symbols <DIR>'",
        2,
    ),
    (
        "report --all --sysroot / @report.bin",
        "error: the argument '--all' cannot be used with '--sysroot <DIR>'",
        2,
    ),
    (
        "report --hints --all @report.bin",
        "error: the argument '--hints' cannot be used with '--all'",
        2,
    ),
    (
        "flamegraph --format folded --color-by category @report.bin",
        "--color-by is for pictures: omit --format folded",
        2,
    ),
    (
        "@empty",
        "@empty: a folder, not a capture: it has no captures: name a report.bin",
        1,
    ),
    (
        "@one",
        "@one: a folder, not a capture: name the capture in it: @one/a.bin",
        1,
    ),
    (
        "lines @several",
        "@several: a folder, not a capture: name one of its captures, as @several/a.bin, or compare them: \
         gpumem-analyze ranks @several",
        1,
    ),
    (
        "@snapshot.pickle",
        "@snapshot.pickle: not a gpumem capture: if it is a PyTorch memory snapshot: \
         gpumem-analyze import torch-snapshot @snapshot.pickle -o @snapshot.bin",
        1,
    ),
    (
        "@trace.json",
        "@trace.json: not a gpumem capture: it is JSON; if *import torch-snapshot @trace.json -o @trace.bin",
        1,
    ),
    (
        "@run.nsys-rep",
        "@run.nsys-rep: not a gpumem capture: gpumem does not read files of Nsight Systems: record with *",
        1,
    ),
    (
        "@run.sqlite",
        "@run.sqlite: not a gpumem capture: it is an SQLite database, such as nsys exports; gpumem does not *",
        1,
    ),
    (
        "@trace.otf2",
        "@trace.otf2: not a gpumem capture: it is an OTF2 trace, which gpumem does not read: record with *",
        1,
    ),
    (
        "@report.svg",
        "@report.svg: not a gpumem capture: it is a picture or page of a capture: *",
        1,
    ),
    (
        "@report.bin.gz",
        "@report.bin.gz: not a gpumem capture: it is compressed: unpack it first *",
        1,
    ),
    (
        "@nothing.bin",
        "@nothing.bin: No such file or directory (os error 2): record one with *",
        1,
    ),
    (
        "--generate man-nothing",
        "gpumem-analyze has no command nothing: see gpumem-analyze --help",
        2,
    ),
];

fn files() -> TempDir {
    let folder = tempdir().expect("a folder");
    let capture = contents("demo");
    let write = |name: &str, contents: &[u8]| {
        std::fs::write(folder.path().join(name), contents).expect("a file")
    };
    for name in ["empty", "one", "several"] {
        std::fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    for name in [
        "report.bin",
        "my report.bin",
        "one/a.bin",
        "several/a.bin",
        "several/b.bin",
    ] {
        write(name, &capture);
    }
    write("snapshot.pickle", b"\x80\x04}q\x00.");
    write("trace.json", b"{\"traceEvents\": []}");
    write("run.nsys-rep", &[&b"NSYS"[..], &[0; 60]].concat());
    write(
        "run.sqlite",
        &[&b"SQLite format 3\0"[..], &[0; 60]].concat(),
    );
    write("trace.otf2", &[&b"OTF2"[..], &[0; 60]].concat());
    write("report.svg", b"<?xml version='1.0'?><svg/>");
    write("report.bin.gz", &[&b"\x1f\x8b\x08"[..], &[0; 60]].concat());
    folder
}

fn in_folder(text: &str, folder: &Path) -> String {
    text.replace('@', &format!("{}/", folder.display()))
}

/// The words of a line; a word with blanks is in quotes.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

/// The messages and the exit code; nothing is on standard output.
fn refused(output: &Output) -> (Vec<String>, Option<i32>) {
    let mut said: Vec<String> = stderr(output).lines().map(str::to_owned).collect();
    if !output.stdout.is_empty() {
        said.push(format!("on standard output: {}", stdout(output)));
    }
    (said, output.status.code())
}

fn suggestion(line: &str, better: &str) -> String {
    format!(
        "gpumem-analyze: `gpumem-analyze {line}` is not a valid command line: did you mean `gpumem-analyze {better}`?"
    )
}

#[test]
fn a_wrong_command_line_is_answered_with_one_that_works() {
    let folder = files();
    let mut faults = Vec::new();
    for (line, better) in MEANT.map(|(line, better)| (line, in_folder(better, folder.path()))) {
        let line = in_folder(line, folder.path());
        let found = refused(&run(words(&line)));
        if found != (vec![suggestion(&line, &better)], Some(2)) {
            faults.push(format!("{line}: {found:?}"));
        }
        let done = run(words(&better));
        if done.status.code() != Some(0) {
            faults.push(format!(
                "{better}: {:?}: {}",
                done.status.code(),
                stderr(&done)
            ));
        }
    }
    none(&faults);
}

#[test]
fn the_first_line_names_the_fault() {
    let folder = files();
    let mut faults = Vec::new();
    for (line, first, code) in REFUSED {
        let line = in_folder(line, folder.path());
        let (said, found) = refused(&run(words(&line)));
        let (is_clap, first) = (
            first.starts_with("error: "),
            in_folder(first, folder.path()),
        );
        let expected = match is_clap {
            true => first,
            false => format!("gpumem-analyze: {first}"),
        };
        let is_so = said.first().is_some_and(|said| is_like(said, &expected));
        if !is_so || found != Some(code) || (said.len() > 1 && !is_clap) {
            faults.push(format!("{line}: {found:?}: {said:?}"));
        }
    }
    none(&faults);
}

/// Whether the text has the parts of a pattern between its asterisks, in order.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else {
        return text == pattern;
    };
    let text = text.strip_prefix(begin);
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    text.is_some_and(|text| text.contains(middle) && text.ends_with(end))
}

/// A file's name that is like a command's, in the current folder: only a process has one.
#[test]
fn a_file_that_is_named_like_a_command_is_a_file() {
    let folder = files();
    std::fs::copy(folder.path().join("report.bin"), folder.path().join("line")).expect("a copy");
    let output = program()
        .args(["line", "summery"])
        .current_dir(folder.path())
        .output();
    let found = refused(&output.expect("the program starts"));
    assert_eq!(
        found,
        (
            vec![suggestion("line summery", "report --all line")],
            Some(2)
        )
    );
}

/// The report is printed, and one line shows where the picture can be written.
#[test]
fn a_report_whose_picture_has_no_place_is_complete() {
    let folder = files();
    // A folder has the picture's name, because nothing stops a superuser from writing.
    std::fs::create_dir(folder.path().join("one/a.svg")).expect("a folder");
    let output = run([folder.path().join("one/a.bin")]);
    let (said, code) = (stderr(&output), output.status.code());
    assert!(stdout(&output).contains("Lines that own the peak"));
    assert_eq!((said.lines().count(), code), (1, Some(0)), "{said}");
    assert!(said.contains("flamegraph -o OUT.svg"), "{said}");
}

/// Commands of earlier releases, and their forms.
#[test]
fn old_names_print_the_same() {
    let folder = files();
    for (old, new) in [
        (
            "export arrow -o - @report.bin",
            "export arrow-stream -o - @report.bin",
        ),
        ("fragmentation @report.bin", "ledger --pool @report.bin"),
        ("hints @report.bin", "report --hints @report.bin"),
        ("recover @report.bin", "check @report.bin"),
        ("scopes @report.bin", "lines --by scope @report.bin"),
        (
            "sizes --exact @report.bin",
            "lines --by size --all @report.bin",
        ),
        ("summary @report.bin", "report --all @report.bin"),
        ("man lines", "--generate man-lines"),
        ("completions zsh", "--generate complete-zsh"),
        (
            "temporary --within 2 @report.bin",
            "lines --of temporary --within 2 @report.bin",
        ),
        (
            "tree --of temporary --within-ms 0.5 @report.bin",
            "tree --of temporary --within 500us @report.bin",
        ),
        (
            "flamegraph --folded @report.bin",
            "flamegraph --format folded @report.bin",
        ),
        (
            "flamegraph --icicle -o - @report.bin",
            "flamegraph --format icicle -o - @report.bin",
        ),
        (
            "lines --by size --each @report.bin",
            "lines --by size --all @report.bin",
        ),
        ("ranks --html - @report.bin", "ranks -o - @report.bin"),
        (
            "ci --head @report.bin --comment=-",
            "ci --head @report.bin --output=-",
        ),
        (
            "threads --at end @report.bin",
            "lines --by thread --at end @report.bin",
        ),
    ] {
        let [old, new] = [old, new].map(|line| run(words(&in_folder(line, folder.path()))));
        assert_eq!(old.stdout, new.stdout);
        let said = stderr(&old);
        let rest = said.split_once('\n').map_or("", |(_, rest)| rest);
        assert!(
            said.contains("the old name works until the next release"),
            "{said}"
        );
        assert_eq!((rest, old.status), (&*stderr(&new), new.status));
    }
}

#[test]
fn a_failure_that_is_not_there_is_no_result() {
    let folder = tempdir().expect("a folder");
    let file = folder.path().join("report.bin");
    std::fs::write(&file, contents("clean")).expect("a file");
    let output = crate::run::analyze(&["oom", "--failure", "3"], &file);
    let said = stderr(&output);
    assert_eq!(
        (output.status.code(), &*stdout(&output)),
        (Some(1), ""),
        "{said}"
    );
    assert!(said.contains("failure 3 is not in the capture"), "{said}");
    // The capture is not exact.
    assert_eq!(crate::run::analyze(&["oom"], &file).status.code(), Some(3));
}

#[test]
fn a_rank_is_that_of_both_sides_of_a_comparison() {
    let folder = tempdir().expect("a folder");
    for run in ["a", "b"] {
        let path = folder.path().join(run);
        std::fs::create_dir(&path).expect("a folder");
        std::fs::write(path.join("report.rank3.bin"), contents("clean")).expect("a file");
    }
    let [before, after] = ["a", "b"].map(|run| folder.path().join(run).join("report.bin"));
    let words = ["diff".as_ref(), "--rank".as_ref(), "3".as_ref()];
    let output = run(words
        .into_iter()
        .chain([before.as_os_str(), after.as_os_str()]));
    // The capture is not exact.
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let said = stdout(&output);
    assert_eq!(said.matches("report.rank3.bin").count(), 2, "{said}");
}
