//! The table of lines that own memory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{Align, Style, Table, Terminal, bytes, count, percent};
use crate::account::Phase;
use crate::names::Names;
use crate::views::LineRow;

/// The text of source lines, if the file did not change since the run.
pub struct Source {
    directory: Option<PathBuf>,
    started: SystemTime,
    files: HashMap<String, Option<Vec<String>>>,
}

/// Larger files are not read.
const SOURCE_LIMIT: u64 = 8 << 20;
/// The maximum length of a line of source.
const SOURCE_COLUMNS: usize = 48;

impl Source {
    /// Source files of a run: relative names start at its directory. Files that were changed after the start are not
    /// shown, because they may not be the code that ran.
    pub fn new(names: &Names, started_wall_ns: u64) -> Self {
        Self {
            directory: names.directory().map(PathBuf::from),
            started: SystemTime::UNIX_EPOCH + Duration::from_nanos(started_wall_ns),
            files: HashMap::new(),
        }
    }

    /// The same for absolute file names.
    pub fn since(started_wall_ns: u64) -> Self {
        Self {
            directory: None,
            started: SystemTime::UNIX_EPOCH + Duration::from_nanos(started_wall_ns),
            files: HashMap::new(),
        }
    }

    /// A line's text, trimmed and cut to a readable length; empty if it is not available.
    pub fn line(&mut self, file: &str, line: u32) -> String {
        let text = self.whole_line(file, line);
        if text.chars().count() <= SOURCE_COLUMNS {
            return text.to_owned();
        }
        text.chars().take(SOURCE_COLUMNS - 1).chain(['…']).collect()
    }

    /// The same without the cut.
    pub fn whole_line(&mut self, file: &str, line: u32) -> &str {
        self.text(file)
            .and_then(|lines| lines.get(line.checked_sub(1)? as usize))
            .map_or("", |line| line.trim())
    }

    /// All lines of a file; `None` if it is not available.
    pub fn text(&mut self, file: &str) -> Option<&[String]> {
        let Self {
            directory,
            started,
            files,
        } = self;
        let lines = files
            .entry(file.to_owned())
            .or_insert_with(|| read(directory.as_deref(), *started, file));
        lines.as_deref()
    }
}

fn read(directory: Option<&Path>, started: SystemTime, file: &str) -> Option<Vec<String>> {
    if file.starts_with('<') {
        return None;
    }
    let path = match directory {
        Some(directory) => directory.join(file),
        None if file.starts_with('/') => PathBuf::from(file),
        None => return None,
    };
    let found = std::fs::metadata(&path).ok()?;
    if !found.is_file() || found.len() > SOURCE_LIMIT || found.modified().ok()? > started {
        return None;
    }
    let text = std::fs::read(&path).ok()?;
    Some(
        String::from_utf8_lossy(&text)
            .lines()
            .map(str::to_owned)
            .collect(),
    )
}

/// The first `limit` rows as a table: line, phase if any row has one, function, source, bytes, share of the sum,
/// blocks. `devices`: whether to name the device of each row.
pub fn lines_table(
    rows: &[LineRow],
    limit: usize,
    title: &str,
    devices: bool,
    names: &Names,
    source: &mut Source,
    terminal: Terminal,
) -> String {
    let whole = rows.iter().map(|row| row.bytes).sum();
    // The number of columns before the function.
    let phases = rows.iter().any(|row| row.phase.is_some());
    let estimated = rows.iter().any(|row| row.error_bytes.is_some());
    // Without known categories, the column is omitted.
    let mut categories = rows.iter().flat_map(|row| &row.categories);
    let categories = categories.any(|of| of.category.is_specific());
    let first = 1 + usize::from(phases) + usize::from(categories);
    let mut columns = vec![Align::Left; first + 2];
    columns.push(Align::Right);
    if estimated {
        columns.push(Align::Left);
    }
    columns.extend([Align::Right, Align::Right, Align::Left]);
    let mut table = Table::new(&columns)
        .elastic(&[first + 1, 0, first, first - 1])
        // The line shows the place.
        .shed(&[first, first + 1]);
    let device = if devices { "device" } else { "" };
    let mut heads = vec![""; first + 2];
    heads[0] = title;
    heads.push("bytes");
    if estimated {
        heads.push("± error");
    }
    heads.extend(["share", "blocks", device]);
    table.cells(&heads).style_row(Style::Strong).span(first + 2);
    for row in rows.iter().take(limit) {
        let text = match row.owner.line() {
            Some(line) => source.line(&line.file, line.line),
            None => String::new(),
        };
        let device = match row.device {
            _ if !devices => String::new(),
            Some(ordinal) => format!("GPU {ordinal}"),
            None => "none".into(),
        };
        let label = format!("  {}", row.owner.label(names));
        let (bytes, share, blocks) = (
            bytes(row.bytes),
            percent(row.bytes, whole),
            count(row.blocks),
        );
        let mut cells: Vec<&str> = vec![&label];
        if phases {
            cells.push(row.phase.map_or("", Phase::word));
        }
        let category = row.category();
        if categories {
            cells.push(&category);
        }
        cells.extend([row.owner.function(), &text, &bytes]);
        let error = row.error_bytes.unwrap_or(0);
        let error = format!("± {}", super::bytes(error));
        if estimated {
            cells.push(&error);
        }
        cells.extend([&*share, &blocks, &device]);
        table.cells(&cells);
        table
            .style(first, Style::Faint)
            .style(first + 1, Style::Faint)
            .place(0, row.owner.note().len());
    }
    table.render(terminal, 0)
}
