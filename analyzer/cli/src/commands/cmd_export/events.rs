//! Exports with a row for each event, and of the whole run's figures.

use std::io::Write;

use anyhow::bail;
use gpumem_analyzer::account::many;
use gpumem_analyzer::export::{self, Csv, Events, Filter};
use gpumem_capture::{DeviceOrdinal, Level, Record};

use super::args::Args;
use super::task::Task;
use crate::commands::read::symbols;

/// The filter for events.
pub(super) fn filter(args: &Args) -> Filter {
    let part = &args.part;
    Filter {
        level: part.level.map(Into::into),
        select: part.select(),
        sizes: part.size.unwrap_or_default(),
    }
}

/// The number of events written, as text.
pub(super) fn said(args: &Args, rows: u64) -> String {
    format!("{}{}", many(rows, "event", "events"), args.part.said())
}

impl Task<'_> {
    pub(super) fn csv(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let mut csv = Csv::new(out, self.args.spreadsheet)?;
        self.rows(&mut |row| Ok(csv.row(&row)?))
    }

    /// Passes each event's row to a sink.
    pub(super) fn rows(
        &self,
        sink: &mut dyn FnMut(export::EventRow<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<String> {
        let mut events = Events::new(&self.first.replay, filter(self.args));
        let (mut rows, mut failed) = (0_u64, None);
        self.again(&mut |replay, record, effect| {
            let Record::Event(seq, event) = record else {
                return;
            };
            if failed.is_none()
                && let Some(row) = events.row(replay, seq, event, effect)
            {
                rows += 1;
                failed = sink(row).err();
            }
        })?;
        match failed {
            Some(error) => Err(error),
            None => Ok(said(self.args, rows)),
        }
    }

    pub(super) fn torch_snapshot(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let (mut symbols, bar) = symbols(self.file, self.first, &self.args.symbols);
        let only = self.args.part.device.map(DeviceOrdinal);
        let has_tensors = self
            .first
            .replay
            .levels
            .keys()
            .any(|(_, level)| *level == Level::TENSOR);
        if !has_tensors {
            bail!(
                "{}: the capture has no PyTorch tensors, which a snapshot consists of",
                self.file.display()
            );
        }
        let written = export::torch_snapshot(
            &mut |observer| self.again(observer),
            self.first,
            only,
            &mut symbols,
            out,
        )?;
        drop(bar);
        let others = match written.others {
            0 => String::new(),
            others => format!(
                ", without {} at the driver level that PyTorch did not make",
                many(others, "event", "events")
            ),
        };
        Ok(format!(
            "{}, {}{others}; open it at https://pytorch.org/memory_viz",
            many(written.entries, "trace entry", "trace entries"),
            many(written.segments, "segment", "segments"),
        ))
    }
}
