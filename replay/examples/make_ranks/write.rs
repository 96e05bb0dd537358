//! Writes one rank's capture.

use std::path::Path;

use gpumem_capture::{
    Definition, Event, EventKind, Nanos, OfflineWriter, Origin, ProcessKey, Reader, Record, Seq,
};
use gpumem_replay::names::Names;

use super::job::Job;
use super::memory::Memory;
use super::plant::Plant;

/// A definition may take up to an eighth of the slots.
const RING_SLOTS: u32 = 1 << 14;
/// The time between the starts of two ranks.
const APART_NS: u64 = 1_000_000;

/// Writes the capture of `rank`.
pub fn write(job: &Job, rank: u64, from: &Path, to: &Path) -> Result<(), String> {
    let plants = job.plants(rank);
    let changes_memory = |plant: &Plant| matches!(plant, Plant::Times(..) | Plant::Leak(..));
    let mut memory = None;
    if plants.iter().any(changes_memory) {
        let mut first = Memory::new(plants.clone(), 0);
        pass(from, &mut |record, names| match record {
            Record::Event(_, event) => first.event(names, event, &mut |_| Ok(())),
            _ => Ok(()),
        })?;
        if first.peak == 0 {
            return Err("what is planted changes nothing: no tensor is of that line".into());
        }
        memory = Some(Memory::new(plants.clone(), first.peak));
    }
    let header = Reader::open(from).map_err(|error| error.to_string())?;
    let header = header.header().clone();
    let end = header.ended.ok_or("FROM has no end")?;
    let origin = Origin {
        started_wall_ns: header.started_wall_ns + rank * APART_NS,
        nonce: header.nonce ^ (rank + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    };
    let out = OfflineWriter::create(to, origin, RING_SLOTS).map_err(|error| error.to_string())?;
    let mut of = Rank {
        job,
        rank,
        plants,
        facts: job.facts(rank),
        out,
        shifts: Vec::new(),
    };
    for (key, value) in of.facts.clone() {
        let key = key.to_owned();
        of.write_definition(&Definition::Process { key, value })?;
    }
    pass(from, &mut |record, names| match record {
        Record::Definition(seq, definition) => of.define(seq, definition),
        Record::Event(seq, event) => match &mut memory {
            Some(memory) => memory.event(names, event, &mut |event| of.event(seq, event)),
            None => of.event(seq, event),
        },
        Record::State(..) => Err("FROM is bounded: it has not all records".into()),
    })?;
    of.finish(end)
}

/// Passes on all records of a capture, with the names defined so far.
fn pass(
    from: &Path,
    sink: &mut dyn FnMut(Record<'_>, &Names) -> Result<(), String>,
) -> Result<(), String> {
    let mut names = Names::default();
    let mut failed = Ok(());
    let mut reader = Reader::open(from).map_err(|error| error.to_string())?;
    let integrity = reader.read(&mut |record| {
        if let Record::Definition(_, definition) = record {
            names.define(definition);
        }
        if failed.is_ok() {
            failed = sink(record, &names);
        }
    });
    match integrity {
        Ok(integrity) if integrity.is_whole() => failed,
        Ok(_) => Err("FROM is not whole".into()),
        Err(error) => Err(error.to_string()),
    }
}

struct Rank<'a> {
    job: &'a Job,
    rank: u64,
    plants: Vec<Plant>,
    facts: Vec<(&'static str, String)>,
    out: OfflineWriter,
    /// The difference between the numbers of records here and in FROM, with the first record that
    /// it applies to.
    shifts: Vec<(u64, u64)>,
}

impl Rank<'_> {
    fn write_definition(&mut self, definition: &Definition) -> Result<Seq, String> {
        let written = self.out.define(definition);
        written.map_err(|error| error.to_string())
    }

    /// The number here of a record of FROM.
    fn number(&self, seq: u64) -> u64 {
        let at = self.shifts.partition_point(|(from, _)| *from <= seq);
        let shift = at.checked_sub(1).and_then(|at| self.shifts.get(at));
        seq.wrapping_add(shift.map_or(0, |(_, shift)| *shift))
    }

    fn wrote(&mut self, seq: Seq, now: Seq) {
        let shift = now.0.wrapping_sub(seq.0);
        if self.shifts.last().is_none_or(|(_, last)| *last != shift) {
            self.shifts.push((seq.0, shift));
        }
    }

    fn define(&mut self, seq: Seq, definition: &Definition) -> Result<(), String> {
        let mut definition = definition.clone();
        match &mut definition {
            Definition::Process { key, value } => {
                if self.facts.iter().any(|(own, _)| own == key) {
                    return Ok(());
                }
                if key == ProcessKey::TRAINED_UNTIL {
                    let of = value.parse().map_err(|_| "trained_until is no number")?;
                    *value = self.number(of).to_string();
                }
                for prefix in [ProcessKey::POSTMORTEM, ProcessKey::HOLDERS] {
                    if let Some(of) = key.strip_prefix(prefix) {
                        let of = of.parse().map_err(|_| "a failure of no number")?;
                        *key = format!("{prefix}{}", self.number(of));
                        break;
                    }
                }
                for plant in &self.plants {
                    if let Plant::Fact { key: of, value: is } = plant
                        && of == key
                    {
                        value.clone_from(is);
                    }
                }
            }
            Definition::Device { uuid, .. } => {
                let (node, local) = self.job.place(self.rank);
                let own = uuid.iter_mut().rev();
                let number = (node << 8 | local).to_le_bytes();
                own.zip(number).for_each(|(byte, of)| *byte = of);
            }
            Definition::Module { path, build_id, .. } => {
                for plant in &self.plants {
                    if let Plant::Library { name, version } = plant
                        && path.rsplit('/').next() == Some(name)
                    {
                        let stem = name.find(".so").map_or(&**name, |at| &name[..at]);
                        let folder = &path[..path.len() - name.len()];
                        *path = format!("{folder}{stem}.so.{version}");
                        build_id.iter_mut().for_each(|byte| *byte ^= 0x5a);
                    }
                }
            }
            _ => {}
        }
        let now = self.write_definition(&definition)?;
        self.wrote(seq, now);
        Ok(())
    }

    fn event(&mut self, seq: Seq, event: &Event) -> Result<(), String> {
        let mut event = *event;
        if event.kind == EventKind::CANCEL {
            event.aux = self.number(event.aux);
        }
        let now = self.out.event(&event).map_err(|error| error.to_string())?;
        self.wrote(seq, now);
        Ok(())
    }

    fn finish(self, end: Nanos) -> Result<(), String> {
        self.out.finish(end).map_err(|error| error.to_string())
    }
}
