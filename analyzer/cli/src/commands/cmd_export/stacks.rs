//! Exports of figures by stack.

use std::io::Write;

use gpumem_analyzer::account::duration;
use gpumem_analyzer::export::{self, Samples, pprof, speedscope};
use gpumem_analyzer::render::bytes;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::views::{ByStack, Folded, Folding, at};

use super::task::Task;
use crate::commands::output::{Notes, file_name};
use crate::commands::read::symbols;

impl Task<'_> {
    pub(super) fn folded(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let moment = self.args.at.unwrap_or_default();
        let (mut symbols, bar) = symbols(self.file, self.first, &self.args.symbols);
        let held = self.held(self.first, moment);
        let all = Folding {
            native: true,
            ..Folding::default()
        };
        let no_text = &mut |_: &str, _| String::new();
        let folded = Folded::of(&self.first.replay, &mut symbols, &held, all, no_text);
        drop(bar);
        export::folded(&folded, out)?;
        Ok(format!(
            "{} of {}",
            bytes(folded.bytes()),
            self.said(moment)
        ))
    }

    /// The peak, the point in time of `--at`, and all allocations.
    fn moments(&self) -> anyhow::Result<[ByStack; 3]> {
        let select = &self.args.part.select();
        let live = match self.args.at.unwrap_or(At::End) {
            of @ (At::Peak | At::End) => self.held(self.first, of),
            of => self.held(&self.capture.borrow_mut().read(self.args.query(of))?, of),
        };
        let allocated = ByStack::allocated(&self.first.replay, self.level(), select);
        Ok([self.held(self.first, At::Peak), live, allocated])
    }

    fn samples(&self, headings: &[&ByStack]) -> Samples {
        let (mut symbols, _bar) = symbols(self.file, self.first, &self.args.symbols);
        Samples::of(&self.first.replay, &mut symbols, headings)
    }

    pub(super) fn speedscope(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let [peak, live, allocated] = self.moments()?;
        let samples = self.samples(&[&peak, &live, &allocated]);
        let live_at = self.args.at.unwrap_or(At::End);
        let names = [
            format!("peak: {}", self.said(At::Peak)),
            format!("live: {}", self.said(live_at)),
            format!(
                "allocated: the {} level, over the whole run{}",
                self.level(),
                self.args.part.said()
            ),
        ];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let name = format!("{} {}", file_name(self.file), self.first.subtitle());
        speedscope::speedscope(&samples, &names, name.trim_end(), out)?;
        Ok(self.three(&samples))
    }

    /// The totals of the first three headings, as text.
    fn three(&self, samples: &Samples) -> String {
        let [peak, live, allocated] = [0, 1, 2].map(|heading| bytes(samples.total(heading).bytes));
        let live_at = at(self.args.at.unwrap_or(At::End));
        let part = self.args.part.said();
        format!(
            "the {} level{part}: peak {peak}, live {live_at} {live}, allocated {allocated}",
            self.level()
        )
    }

    pub(super) fn pprof(
        &self,
        out: &mut dyn Write,
        notes: &mut Notes<'_>,
    ) -> anyhow::Result<String> {
        let [peak, live, allocated] = self.moments()?;
        let (replay, part) = (&self.first.replay, &self.args.part);
        let sizes = part.size.unwrap_or_default();
        let leaked = self
            .steps
            .leaked(replay, self.level(), &part.select(), sizes);
        let mut helds = vec![&peak, &live, &allocated];
        let mut headings = vec!["peak", "live", "allocated"];
        match &leaked {
            Some(leaked) => {
                helds.push(leaked);
                headings.push("leaked");
            }
            None => notes.say(
                "this bounded capture has no records from before the last step: leaked is omitted",
            ),
        }
        let samples = self.samples(&helds);
        let live_at = at(self.args.at.unwrap_or(At::End));
        let mut comments = vec![
            replay.names.command().unwrap_or_default().to_owned(),
            format!("GPU memory of the {} level{}", self.level(), part.said()),
            format!("live: not yet freed {live_at}"),
            "leaked: live at the end and allocated before the last step began; without steps, everything live at the end"
                .into(),
            "allocated: over the whole run, freed or not".into(),
        ];
        comments.extend(self.first.account.sampled());
        let about = pprof::About {
            started_unix_ns: self.first.header.started_wall_ns,
            duration_ns: duration(&self.first.header, replay).0,
            comments,
        };
        pprof::pprof(&samples, &headings, &replay.names, &about, out)?;
        Ok(self.three(&samples))
    }
}
