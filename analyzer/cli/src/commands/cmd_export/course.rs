//! Exports of values over time.

use std::collections::BTreeMap;
use std::io::Write;

use gpumem_analyzer::account::{duration, many, place};
use gpumem_analyzer::export::{Blocks, Point, Series, firefox, perfetto};
use gpumem_analyzer::render::{bytes, count};
use gpumem_analyzer::replay::At;
use gpumem_capture::{DeviceOrdinal, Nanos, Record, Seq};

use super::task::Task;
use crate::commands::read::symbols;

/// The number of time intervals of a counter in the Firefox Profiler.
const POINTS: u64 = 4096;

impl Task<'_> {
    pub(super) fn perfetto(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let wanted = perfetto::Wanted {
            level: self.args.part.level.map(Into::into),
            device: self.args.part.device.map(DeviceOrdinal),
        };
        let mut trace = perfetto::Perfetto::new(self.first, wanted, out);
        self.again(&mut |replay, record, _| trace.observe(replay, record))?;
        trace.finish()?;
        Ok("open it at https://ui.perfetto.dev".into())
    }

    pub(super) fn firefox(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let (first, level) = (self.first, self.level());
        let moment = self.args.at.unwrap_or_default();
        let held = self.held(first, moment);
        let of = |device: DeviceOrdinal| -> Option<Seq> {
            match moment {
                At::Peak => Some(first.replay.levels.get(&(device, level))?.peak.0),
                At::End => None,
                _ => first.replay.until(),
            }
        };
        let devices = held.devices.iter().map(|on| on.device);
        let moments: BTreeMap<_, _> = devices.map(|device| (device, of(device))).collect();
        let length = duration(&first.header, &first.replay);
        let stretch = Nanos(length.0 / POINTS + 1);
        let mut counters: BTreeMap<DeviceOrdinal, (Series, Vec<Point>)> = moments
            .keys()
            .map(|device| (*device, (Series::new(stretch), Vec::new())))
            .collect();
        let mut blocks = Blocks::new(level, moments);
        self.again(&mut |replay, record, effect| {
            blocks.observe(replay, record, effect);
            let Record::Event(_, event) = record else {
                return;
            };
            if let (Some((series, points)), true) =
                (counters.get_mut(&event.device), event.level == level)
            {
                let value = replay.counters(event.device, level).live;
                let time = event.time;
                points.extend(series.push(Point { time, value }));
            }
        })?;
        let counters: Vec<firefox::Counter> = counters
            .into_iter()
            .map(|(device, (mut series, mut points))| {
                points.extend(series.finish());
                let name = format!("{} {level}", place(device));
                firefox::Counter { name, points }
            })
            .collect();
        let blocks = blocks.finish(
            &first.replay,
            &held,
            self.args.part.size.unwrap_or_default(),
        );
        let number = blocks.len();
        let about = firefox::About {
            title: format!("GPU memory: {}", self.said(moment)),
            pid: first.header.pid,
            started_unix_ns: first.header.started_wall_ns,
            duration: length,
        };
        let (mut symbols, _bar) = symbols(self.file, first, &self.args.symbols);
        let together =
            firefox::firefox(&first.replay, &mut symbols, blocks, &counters, &about, out)?;
        let mut said = format!("{} of {}", bytes(held.bytes()), self.said(moment));
        said.push_str(&format!(" in {}", many(number as u64, "block", "blocks")));
        if together > 0 {
            let together = count(together as u64);
            said.push_str(&format!(", the smallest {together} merged by stack"));
        }
        Ok(said)
    }
}
