//! For any damage of a file, the reader returns no record that was not written, and reports all
//! missing ones.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use gpumem_capture::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use crate::support::*;

/// The offset of the pages of a capture with 128 slots.
const PAGES: usize = 24_576 + 128 * 64;

/// A capture with six pages and a ring in which records wait, one of them larger than a slot.
struct Sample {
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
    records: BTreeMap<Seq, Item>,
    counters: Vec<(DeviceOrdinal, Level, CounterValues)>,
    header: Header,
    integrity: Integrity,
}

impl Sample {
    fn new() -> Self {
        let folder = in_memory();
        let path = folder.path().join("whole.bin");
        let options = Options::default()
            .ring_slots(128)
            .stall(std::time::Duration::ZERO);
        let writer = Writer::create(&path, &options).unwrap();
        let mut runner = TestRunner::deterministic();
        let mut next = || item().new_tree(&mut runner).unwrap().current();
        writer.stop_drain();
        for _ in 0..6 {
            for _ in 0..30 {
                // Definitions that are too large for such a small ring are refused and do not
                // matter here.
                let _ = write(writer, &next());
            }
            writer.drain();
        }
        for n in 0..40 {
            let text = "payload ".repeat(20);
            let note = Item::Definition(Definition::Note { text });
            let _ = write(writer, &if n == 20 { note } else { next() });
        }
        writer.finish();
        // Of a process that has ended: otherwise damaged counters are read 400 times.
        let bytes = with_another_header(std::fs::read(&path).unwrap(), 56);
        std::fs::write(&path, &bytes).unwrap();
        let (records, integrity) = read(&path);
        let reader = Reader::open(&path).unwrap();
        assert!(
            integrity.damage.is_empty() && integrity.pages == 6,
            "{integrity:?}"
        );
        let (counters, header) = (reader.counters().rows, reader.header().clone());
        let records = records.into_iter().collect();
        Self {
            folder,
            bytes,
            records,
            counters,
            header,
            integrity,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("changed.bin")
    }

    /// Checks the result of reading a changed copy. `Ok(true)`: it was read as whole.
    fn judge(&self, path: &Path) -> Result<bool, String> {
        // Also checks that threads that decode pages ahead have no effect.
        let Ok(_) = fuzzing::judge(path) else {
            return Ok(false);
        };
        let Ok(mut reader) = Reader::open(path) else {
            return Ok(false);
        };
        let mut records = BTreeMap::new();
        let mut last = None;
        let mut wrong = None;
        let integrity = reader
            .read(&mut |record| {
                let (seq, item) = own(record);
                if last >= Some(seq) {
                    wrong = Some(format!("{seq:?} after {last:?}"));
                }
                last = Some(seq);
                records.insert(seq, item);
            })
            .map_err(|error| error.to_string())?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        for (seq, item) in &records {
            if self.records.get(seq) != Some(item) {
                return Err(format!("{seq:?} was never written: {item:?}"));
            }
        }
        let is_covered = |seq: &Seq| {
            integrity.damage.iter().any(|damage| {
                damage.first_missing.is_some_and(|first| first <= *seq)
                    && damage.next_good.is_none_or(|next| *seq < next)
            })
        };
        for seq in self.records.keys().filter(|seq| !records.contains_key(seq)) {
            if !is_covered(seq) {
                return Err(format!(
                    "{seq:?} is missing, and no damage says so: {integrity:?}"
                ));
            }
        }
        if !integrity.damage.is_empty() {
            // The figures that are still returned must be those that were written.
            for row in reader.counters().rows {
                if !self.counters.contains(&row) {
                    return Err(format!("{row:?} was never counted"));
                }
            }
            return Ok(false);
        }
        if *reader.header() != self.header || integrity != self.integrity {
            return Err(format!("the account differs: {integrity:?}"));
        }
        if reader.counters().rows != self.counters {
            return Err("the counters differ".to_owned());
        }
        Ok(true)
    }
}

/// Whether the format uses a byte.
fn is_used(offset: usize, bytes: &[u8]) -> bool {
    match offset {
        0..512 | 2048..2560 | 4096..4104 | 4160..4176 | 4224..4256 | 4416..4448 => true,
        512..8192 => false,
        // Rows that were used.
        8192..24_576 => bytes[offset / 64 * 64..][..56]
            .iter()
            .any(|byte| *byte != 0),
        _ => true,
    }
}

/// One in seven: a number that divides no field's place.
#[test]
fn any_changed_byte_is_noticed_or_harmless() {
    change_bytes(7);
}

#[test]
#[ignore = "slow: each byte in turn"]
fn each_changed_byte_is_noticed_or_harmless() {
    change_bytes(1);
}

/// Changes one in `step` of the bytes that are used, each alone.
fn change_bytes(step: usize) {
    let sample = Sample::new();
    let path = sample.path();
    std::fs::write(&path, &sample.bytes).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let mut noticed = 0;
    let mut tried = 0;
    for (offset, byte) in sample.bytes.iter().enumerate() {
        // Unused bytes: one in 97; the empty part of the ring: one in 7.
        let empty = (24_576..PAGES).contains(&offset)
            && sample.bytes[offset / 64 * 64..][..64]
                .iter()
                .all(|byte| *byte == 0);
        let is_chosen = match (is_used(offset, &sample.bytes), empty) {
            (false, _) => offset % (97 * step) == 0,
            (true, true) => offset % (7 * step) == 0,
            (true, false) => offset % step == 0,
        };
        if !is_chosen {
            continue;
        }
        let changed = byte ^ (1 << (offset * 5 % 8));
        file.write_all_at(&[changed], offset as u64).unwrap();
        let whole = sample
            .judge(&path)
            .unwrap_or_else(|e| panic!("byte {offset}: {e}"));
        file.write_all_at(&[*byte], offset as u64).unwrap();
        tried += 1;
        noticed += u32::from(!whole);
        // All changes in pages, records and the static header must be detected.
        let must_notice = offset >= PAGES || (offset < 4096 && is_used(offset, &sample.bytes));
        assert!(!whole || !must_notice, "byte {offset} changed unnoticed");
    }
    assert!(noticed > tried / 2, "{noticed} of {tried}");
    assert_eq!(sample.judge(&path), Ok(true));
}

#[test]
fn several_random_bytes_changed() {
    change_several(100);
}

#[test]
#[ignore = "slow: more of them"]
fn several_random_bytes_changed_often() {
    change_several(5_000);
}

fn change_several(times: u32) {
    let sample = Sample::new();
    let path = sample.path();
    let mut runner = TestRunner::deterministic();
    let changes = prop::collection::vec((0..sample.bytes.len(), 1..=255_u8), 1..=8);
    let focus = prop::collection::vec((4096..4300_usize, 1..=255_u8), 1..=8);
    let strategy = prop_oneof![3 => changes, 1 => focus];
    for _ in 0..times {
        let changes = strategy.new_tree(&mut runner).unwrap().current();
        let mut bytes = sample.bytes.clone();
        for (offset, change) in &changes {
            bytes[*offset] ^= change;
        }
        std::fs::write(&path, &bytes).unwrap();
        sample
            .judge(&path)
            .unwrap_or_else(|e| panic!("{changes:?}: {e}"));
    }
}

#[test]
fn cut_off_anywhere() {
    let sample = Sample::new();
    let path = sample.path();
    let mut lengths: Vec<usize> = (0..sample.bytes.len()).step_by(211).collect();
    let pages = sample
        .bytes
        .windows(8)
        .enumerate()
        .filter(|(_, bytes)| bytes == b"GPUMPAGE");
    let starts: Vec<usize> = pages.map(|(offset, _)| offset).collect();
    assert_eq!((starts.len(), starts[0]), (6, PAGES));
    lengths.extend(
        starts
            .iter()
            .flat_map(|start| [start - 1, *start, start + 1, start + 144]),
    );
    for length in lengths {
        std::fs::write(&path, &sample.bytes[..length]).unwrap();
        let whole = sample
            .judge(&path)
            .unwrap_or_else(|e| panic!("cut to {length}: {e}"));
        assert!(!whole, "cut to {length} unnoticed");
    }
}

#[test]
fn a_page_taken_out_or_repeated() {
    let sample = Sample::new();
    let path = sample.path();
    let pages = sample
        .bytes
        .windows(8)
        .enumerate()
        .filter(|(_, bytes)| bytes == b"GPUMPAGE");
    let starts: Vec<usize> = pages.map(|(offset, _)| offset).collect();
    let (third, fourth) = (starts[2], starts[3]);
    let without = [&sample.bytes[..third], &sample.bytes[fourth..]].concat();
    let twice = [&sample.bytes[..fourth], &sample.bytes[third..]].concat();
    for bytes in [without, twice] {
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(sample.judge(&path), Ok(false));
    }
}

#[test]
fn blocks_of_the_ring_that_were_lost() {
    let sample = Sample::new();
    let path = sample.path();
    for start in (24_576..PAGES).step_by(4096) {
        let mut bytes = sample.bytes.clone();
        let was_empty = bytes[start..start + 4096].iter().all(|byte| *byte == 0);
        bytes[start..start + 4096].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        let (_, integrity) = read(&path);
        assert_eq!(integrity.damage.is_empty(), was_empty, "{integrity:?}");
    }
}

#[test]
fn the_header_alone_in_a_file_of_noise() {
    let sample = Sample::new();
    let path = sample.path();
    let mut runner = TestRunner::deterministic();
    let noise = prop::collection::vec(any::<u8>(), sample.bytes.len() - 4096);
    for _ in 0..20 {
        let noise = noise.new_tree(&mut runner).unwrap().current();
        std::fs::write(&path, [&sample.bytes[..4096], &noise].concat()).unwrap();
        assert_eq!(sample.judge(&path), Ok(false));
    }
}

/// A copy of the header that was not there when a capture was opened, and is when it has been read, is not damaged.
#[test]
fn the_header_may_be_written_meanwhile() {
    let sample = Sample::new();
    let path = sample.folder.path().join("begins.bin");
    for copy in [0, 2048] {
        let mut begins = sample.bytes.clone();
        begins[copy..copy + 512].fill(0);
        std::fs::write(&path, &begins).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let found = reader.read(&mut |_| {}).unwrap();
        let damage: Vec<u64> = found.damage.iter().map(|of| of.offset).collect();
        assert_eq!(damage, [copy as u64]);
        std::fs::write(&path, &sample.bytes).unwrap();
        assert_eq!(reader.read(&mut |_| {}).unwrap(), sample.integrity);
    }
}
