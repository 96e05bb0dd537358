//! Rank by time as text: a row for each rank, or for several.

use super::answer::first_answer;
use super::rows::{Row, bands, died};
use super::shades::Cells;
use super::words::clock_lines;
use crate::account::many;
use crate::ranks::{HeatRow, Heatmap, Job, Outlier, Part, RankRow};
use crate::render::timeline::{tick_text, time_ticks};
use crate::render::{Style, Terminal, bytes, duration};

/// Columns if the terminal's width is not known.
const WIDTH: usize = 80;
/// Columns of the figure after a row.
const FIGURE: usize = 9;
/// The maximum width of a label.
const LABEL: usize = 24;

/// The summary, and the memory of each rank over time.
pub fn ranks_timeline_text(
    job: &Job,
    map: &Heatmap,
    part: Part,
    cells: Cells,
    terminal: Terminal,
) -> String {
    let by_rank: Vec<&[Outlier]> = job.outliers.chunk_by(|a, b| a.rank == b.rank).collect();
    let mut out = first_answer(job, &by_rank, terminal);
    out.push('\n');
    let most = map.most()[part as usize];
    if map.columns == 0 || most == 0 {
        out.push_str(&format!("No rank held {}.\n", part.word()));
        return out;
    }
    let (bands, each) = bands(job);
    let labels = bands
        .iter()
        .flat_map(|band| &band.rows)
        .map(|row| row.label.chars().count());
    let label = labels.max().unwrap_or(0).clamp(3, LABEL);
    let width = terminal.width.unwrap_or(WIDTH).clamp(40, 400);
    let drawing = Drawing {
        job,
        map,
        part,
        most,
        cells,
        terminal,
        label,
        columns: width.saturating_sub(label + 3 + FIGURE + 1),
    };
    for band in &bands {
        if !band.heading.is_empty() {
            out.push_str(&terminal.paint(Style::Strong, &band.heading));
            out.push('\n');
        }
        for row in &band.rows {
            out.push_str(&drawing.row(row));
        }
    }
    out.push_str(&drawing.times());
    out.push_str(&drawing.legend(each));
    out
}

struct Drawing<'a> {
    job: &'a Job,
    map: &'a Heatmap,
    part: Part,
    most: u64,
    cells: Cells,
    terminal: Terminal,
    label: usize,
    columns: usize,
}

impl Drawing<'_> {
    /// Ranks with their figures over time.
    fn of<'b>(&'b self, ranks: &'b [u64]) -> impl Iterator<Item = (&'b RankRow, &'b HeatRow)> {
        ranks.iter().filter_map(|rank| {
            let at = self
                .job
                .ranks
                .binary_search_by_key(rank, |row| row.rank)
                .ok()?;
            Some((self.job.ranks.get(at)?, self.map.ranks.get(at)?))
        })
    }

    fn row(&self, row: &Row) -> String {
        let mut cells: Vec<Option<u64>> = vec![None; self.columns];
        for (_, of) in self.of(&row.ranks) {
            let columns = (0..self.columns).map(|column| self.cell(of, column));
            for (cell, here) in cells.iter_mut().zip(columns) {
                *cell = here.max(*cell);
            }
        }
        let mark = if row.differs { '*' } else { ' ' };
        let label: String = row.label.chars().take(self.label).collect();
        let label = format!("{mark} {label:>wide$}", wide = self.label);
        let label = match row.differs {
            true => self.terminal.paint(Style::Bad, &label),
            false => label,
        };
        let most = self.of(&row.ranks).map(|(of, _)| of.peak(self.part)).max();
        let figure = format!("{:>FIGURE$}", bytes(most.unwrap_or(0)));
        let drawn = match self.death(row) {
            Some(end) => {
                let (before, after) = cells.split_at(end);
                let cross = self
                    .terminal
                    .paint(Style::Bad, &self.cells.died().to_string());
                let row = |cells| self.cells.row(cells, self.most, self.terminal);
                row(before) + &cross + &row(after.get(1..).unwrap_or(&[]))
            }
            None => self.cells.row(&cells, self.most, self.terminal),
        };
        format!("{label} {drawn} {figure}\n")
    }

    /// The column in which the rank of a row died, if it is the only one.
    fn death(&self, row: &Row) -> Option<usize> {
        let [only] = row.ranks[..] else { return None };
        let (of, _) = self
            .of(&row.ranks)
            .next()
            .filter(|_| died(self.job, only))?;
        let clock = self
            .job
            .clocks
            .iter()
            .find(|clock| Some(&clock.host) == of.host.as_ref());
        let ahead = clock.map_or(0, |clock| clock.ahead_ns);
        let at = of
            .end
            .at_unix_ns
            .saturating_add_signed(ahead.saturating_neg());
        let after = u128::from(at.saturating_sub(self.map.from_unix_ns));
        let length = self.map.to_unix_ns() - self.map.from_unix_ns;
        let column = after * self.columns as u128 / u128::from(length.max(1));
        Some((column as usize).min(self.columns.saturating_sub(1)))
    }

    /// The maximum of a column of the picture, over the map's columns whose middles it contains, or of the map's
    /// column that contains it.
    fn cell(&self, row: &HeatRow, column: usize) -> Option<u64> {
        let (all, here) = (self.map.columns, self.columns);
        let edge = |column: usize| (2 * column * all + here - 1) / (2 * here);
        let middle = ((2 * column + 1) * all / (2 * here)).min(all.saturating_sub(1));
        let within = edge(column)..edge(column + 1);
        let within = if within.is_empty() {
            middle..middle + 1
        } else {
            within
        };
        within
            .filter_map(|at| row.at(at).map(|parts| parts[self.part as usize]))
            .max()
    }

    /// Times below the rows, since the start of the first column.
    fn times(&self) -> String {
        let length = self.map.to_unix_ns() - self.map.from_unix_ns;
        let (ticks, step) = time_ticks(0, length);
        let left = self.label + 3;
        let mut line = " ".repeat(left);
        for tick in ticks {
            let column = u128::from(tick) * self.columns as u128 / u128::from(length.max(1));
            let (at, taken) = (left + column as usize, line.chars().count());
            let label = format!("{}{}", self.cells.tick(), tick_text(tick, step));
            let fits = at + label.chars().count() <= left + self.columns;
            if fits && (at > taken || tick == 0) {
                line.push_str(&" ".repeat(at - taken));
                line.push_str(&label);
            }
        }
        line + "\n"
    }

    fn legend(&self, each: usize) -> String {
        let scale = self.cells.scale(self.terminal);
        let mut out = format!(
            "{} 0 B {scale} {}   {}, since {}\n",
            " ".repeat(self.label + 2),
            bytes(self.most),
            self.part.word(),
            self.since(),
        );
        let mut said = vec![format!(
            "A column is {} of time, and shows the largest memory in it",
            duration((self.map.to_unix_ns() - self.map.from_unix_ns) / self.columns.max(1) as u64)
        )];
        if each > 1 {
            said.push(format!(
                "a row the largest of up to {}",
                many(each as u64, "rank", "ranks")
            ));
        }
        if !self.job.outliers.is_empty() {
            said.push("* differs from its peers".to_owned());
        }
        if self.job.ranks.iter().any(|row| died(self.job, row.rank)) {
            said.push(format!("{} died", self.cells.died()));
        }
        out.push_str(&format!("{}.\n", said.join("; ")));
        for line in clock_lines(&self.job.clocks) {
            out.push_str(&line);
            out.push('\n');
        }
        out
    }

    /// The start of the first column.
    fn since(&self) -> String {
        let seconds = self.map.from_unix_ns / 1_000_000_000 % 86_400;
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        format!("{hours:02}:{minutes:02}:{:02} UTC", seconds % 60)
    }
}
