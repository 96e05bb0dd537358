//! Comma-separated values (RFC 4180, but with plain line ends): a line of names, and a line for each event.
//!
//! The crate csv would make this file nine lines shorter, and add two packages.

use std::borrow::Cow;
use std::io::{self, Write};

use super::events::EventRow;

const COLUMNS: &str = "seq,time_ns,kind,level,device,ptr,bytes,live_bytes,block_seq,thread,api,file,\
    line,function,node,library,phase,step,range,category\n";

/// Writes rows as they come.
pub struct Csv<'a> {
    out: &'a mut dyn Write,
    for_spreadsheets: bool,
}

impl<'a> Csv<'a> {
    /// Writes the names of the columns. `for_spreadsheets`: text that a spreadsheet would run as a formula begins with
    /// `'`.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(out: &'a mut dyn Write, for_spreadsheets: bool) -> io::Result<Self> {
        out.write_all(COLUMNS.as_bytes())?;
        Ok(Self {
            out,
            for_spreadsheets,
        })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// The writer's.
    pub fn row(&mut self, row: &EventRow<'_>) -> io::Result<()> {
        let whose = &row.whose;
        let is_formula = |text: &str| text.starts_with(['=', '+', '-', '@']);
        let text = |text: Option<&str>| match text.unwrap_or_default() {
            text if self.for_spreadsheets && is_formula(text) => {
                quoted(&format!("'{text}")).into_owned()
            }
            text => quoted(text).into_owned(),
        };
        let number = |number: Option<u64>| number.map(|of| of.to_string()).unwrap_or_default();
        writeln!(
            self.out,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            row.seq,
            row.time_ns,
            row.kind,
            row.level.unwrap_or_default(),
            number(row.device.map(Into::into)),
            row.ptr,
            row.bytes,
            number(row.live_bytes),
            number(row.block_seq),
            row.thread,
            text(row.api),
            text(whose.file.as_deref()),
            number(whose.line.map(Into::into)),
            text(whose.function.as_deref()),
            text(whose.node.as_deref()),
            text(whose.library.as_deref()),
            whose.phase.unwrap_or_default(),
            number(row.step),
            text(row.range),
            row.category.unwrap_or_default(),
        )
    }
}

/// A field. If it has a comma, a quote or a line end, it is quoted and its quotes are doubled.
fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_would_be_misread_is_quoted() {
        for (text, expected) in [
            ("train.py", "train.py"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("", ""),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn every_row_has_a_field_for_each_column() -> io::Result<()> {
        let mut out = Vec::new();
        let row = EventRow {
            seq: 1,
            time_ns: 2,
            kind: "alloc",
            level: None,
            device: None,
            ptr: 3,
            bytes: 4,
            live_bytes: None,
            block_seq: None,
            thread: 5,
            api: None,
            whose: Default::default(),
            stacks: None,
            step: None,
            range: Some("a,b"),
            category: None,
        };
        Csv::new(&mut out, false)?.row(&row)?;
        let text = String::from_utf8_lossy(&out);
        let lines: Vec<&str> = text.lines().collect();
        let commas = |text: &str| text.matches(',').count();
        assert_eq!(lines[1], "1,2,alloc,,,3,4,,,5,,,,,,,,,\"a,b\",");
        assert_eq!(commas(lines[1]) - 1, commas(lines[0]));
        Ok(())
    }
}
