//! Compares [`gpumem_analyzer::python::line`] with an interpreter's lines of its code objects, for
//! tests/test_python_frames.py.
//!
//! Standard input: the version in hex, then for each code object a line of the first line number,
//! the line table in hex ("-" if it is empty) and for each range of code that belongs to one line
//! `start:end:line`, with the line "-" for code without a line. Prints the number of compared offsets and
//! each difference; exit code 1 if there is any.

use std::io::{BufRead, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut lines = std::io::stdin().lock().lines().map(Result::unwrap);
    let version = u32::from_str_radix(&lines.next().unwrap(), 16).unwrap();
    let mut out = std::io::stdout().lock();
    let (mut objects, mut compared, mut different) = (0u64, 0u64, 0u64);
    for text in lines {
        objects += 1;
        let mut fields = text.split(' ');
        let first_line = fields.next().unwrap().parse().unwrap();
        let table = bytes(fields.next().unwrap());
        for range in fields {
            let [start, end, expected] = *range.split(':').collect::<Vec<_>>() else {
                panic!("not a range: {range}");
            };
            let expected: Option<u32> = (expected != "-").then(|| expected.parse().unwrap());
            for offset in start.parse::<i32>().unwrap()..end.parse().unwrap() {
                compared += 1;
                let found = gpumem_analyzer::python::line(version, first_line, &table, offset);
                if found != expected {
                    different += 1;
                    let _ = writeln!(out, "{first_line}+{offset}: {found:?}, not {expected:?}");
                }
            }
        }
    }
    let _ = writeln!(
        out,
        "objects {objects} compared {compared} different {different}"
    );
    ExitCode::from(u8::from(different > 0))
}

fn bytes(hex: &str) -> Vec<u8> {
    match hex {
        "-" => Vec::new(),
        _ => (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect(),
    }
}
