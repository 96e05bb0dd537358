//! The failure that ended the program, known at the end of the process.

use core::sync::atomic::Ordering;

use gpumem_capture::Seq;

use super::verdict::{self, Judgement};
use super::{FOR_NAMES, Judged, Printed, Reports, store, text};
use crate::message;
use crate::session::Session;

impl Reports {
    /// Whether the only report on stderr may not be that of the failure that ended the program.
    pub(super) fn is_ending_open(&self) -> bool {
        let judged = self.judged();
        let is_reported = |of: &Judged| of.printed == Printed::Report;
        match self.count.load(Ordering::Relaxed) {
            0 => false,
            1 => !judged.iter().all(is_reported),
            _ => true,
        }
    }

    /// Says which failure ended the program, with its report if none for the same reason was printed.
    pub(super) fn say_ending(&self, session: &'static Session) {
        session.writer.await_written(FOR_NAMES);
        let path = session.storage.path(session.writer);
        let newest = Seq(self.newest.load(Ordering::Relaxed));
        let ending = path.and_then(|path| Some((path, verdict::last(path, newest)?)));
        let Some((path, (failure, level))) = ending else {
            return;
        };
        let judged = self.judged();
        let mine = judged.iter().find(|of| of.seq == failure.seq);
        // Of many failures, only the first are judged when they happen.
        let verdict = || {
            let of = (failure.seq, failure.event, failure.event.native_stack);
            Judgement::read(path, of, (level, 0), true)?.verdict(None)
        };
        let (text, reason) = match mine {
            Some(mine) => (mine.text.clone(), mine.reason.clone()),
            None => {
                let verdict = verdict();
                let text = text::brief(session, &failure.event, verdict.as_ref());
                (text, verdict.map(|of| of.reason))
            }
        };
        let is_report = |of: &&Judged| of.printed == Printed::Report;
        let reports: Vec<&Judged> = judged.iter().filter(is_report).collect();
        let is_its =
            |of: &&Judged| of.seq == failure.seq || (reason.is_some() && of.reason == reason);
        if let Some(at) = reports.iter().rposition(is_its) {
            // The only one needs no line.
            if reports.len() > 1 {
                let which = (at + 1, reports.len());
                message::line(&text::of_report(&failure.event, which));
            }
            return;
        }
        let is_first = judged.iter().all(|of| of.printed == Printed::Nothing);
        let text = match is_first {
            true => text,
            false => text::with_ending(&text),
        };
        message::line(text.trim_end());
        store(session, failure.seq, &text);
    }
}
