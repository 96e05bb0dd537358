//! A standard output that takes no more: a closed pipe is no error, a full disk is one.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};

use gpumem_analyze::Output;

use crate::captures::{Captures, none};

const VIEWS: [&str; 20] = [
    "",
    "report --all",
    "lines",
    "lines --annotate",
    "ledger",
    "leaks",
    "lines --of temporary",
    "ledger --pool",
    "lines --by size",
    "lines --by thread",
    "lines --by scope",
    "changes",
    "report --hints",
    "oom",
    "tree",
    "check",
    "timeline --format text",
    "flamegraph --format folded",
    "export csv -o -",
    "export perfetto -o -",
];

/// Refuses everything.
struct Refusing(ErrorKind);

impl Write for Refusing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn faults(kind: ErrorKind, code: u8, is_said: bool) -> Vec<String> {
    let captures = Captures::copied(&["demo"]);
    let file = captures.path("demo");
    let mut faults = Vec::new();
    for (view, format) in VIEWS
        .iter()
        .flat_map(|view| [(view, ""), (view, "--format json")])
    {
        if !format.is_empty()
            && ["export", "flamegraph", "timeline"]
                .iter()
                .any(|of| view.starts_with(of))
        {
            continue;
        }
        let words = format!("gpumem-analyze {view} {format}");
        let words = words.split_whitespace().map(OsString::from);
        let arguments: Vec<OsString> = words.chain([file.clone().into()]).collect();
        let (mut out, mut notes) = (Refusing(kind), Vec::new());
        let found = gpumem_analyze::run(&arguments, &mut Output::plain(&mut out, &mut notes));
        let said = String::from_utf8_lossy(&notes);
        if found != code || said.is_empty() == is_said {
            faults.push(format!("{view} {format}: exit {found}: {said}"));
        }
    }
    faults
}

#[test]
fn a_closed_pipe_is_no_error() {
    none(&faults(ErrorKind::BrokenPipe, 0, false));
}

#[test]
fn a_full_disk_is_an_error() {
    none(&faults(ErrorKind::StorageFull, 1, true));
}
