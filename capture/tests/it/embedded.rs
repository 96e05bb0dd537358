//! A capture with embedded names has its original content and the names.

use std::path::{Path, PathBuf};

use gpumem_capture::embedded::embed;
use gpumem_capture::*;

use crate::support::in_memory;

/// Bytes of a mark of the embedded part.
const MARK: usize = 64;

struct Sample {
    folder: tempfile::TempDir,
    /// A capture with pages and a ring in which records wait.
    bytes: Vec<u8>,
}

impl Sample {
    fn new() -> Self {
        let folder = in_memory();
        let path = folder.path().join("whole.bin");
        let options = Options::default()
            .ring_slots(128)
            .stall(std::time::Duration::ZERO);
        let writer = Writer::create(&path, &options).unwrap();
        writer.stop_drain();
        for page in 0..4_u64 {
            for n in 0..20 {
                writer.event(&event(page * 20 + n)).unwrap();
            }
            writer
                .definition(DefKind::NOTE, &[&[4, 0, 0, 0], b"note"])
                .unwrap();
            if page < 3 {
                writer.drain();
            }
        }
        let bytes = std::fs::read(&path).unwrap();
        Self { folder, bytes }
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The file with that content, embedded.
    fn embedded(&self, bytes: &[u8], symbols: &[Definition]) -> Vec<u8> {
        let reader = Reader::open(&self.file("from.bin", bytes)).unwrap();
        let (mut out, mut copied) = (Vec::new(), 0);
        let written = embed(&reader, symbols.to_vec(), &mut out, &mut |bytes| {
            copied = bytes;
        })
        .unwrap();
        assert_eq!(written, symbols.len() as u64);
        assert_eq!(copied, reader.own_bytes());
        out
    }

    fn told(&self, bytes: &[u8]) -> Option<Told> {
        Told::of(&self.file("told.bin", bytes))
    }
}

fn event(n: u64) -> Event {
    Event {
        kind: EventKind::ALLOC,
        level: Level::DRIVER,
        device: DeviceOrdinal(0),
        time: Nanos(1000 * n),
        ptr: 0x7f00_0000_0000 + 512 * n,
        bytes: 512,
        ..Event::default()
    }
}

fn symbols() -> Vec<Definition> {
    let function = |name: &str, line| Function {
        name: name.to_owned(),
        file: "grow.cpp".to_owned(),
        line,
    };
    (0..100)
        .map(|n| Definition::Symbol {
            module: ModuleId(1 + n / 50),
            address: 0x1000 * u64::from(n),
            functions: vec![function("inner", n), function("outer(int)", 7)],
        })
        .collect()
}

/// The complete content of a file.
#[derive(Debug, PartialEq)]
struct Told {
    header: Header,
    counters: Vec<(DeviceOrdinal, Level, CounterValues)>,
    records: Vec<String>,
    symbols: Vec<Definition>,
    integrity: Integrity,
}

impl Told {
    fn of(path: &Path) -> Option<Self> {
        let mut reader = Reader::open(path).ok()?;
        let (mut records, mut symbols) = (Vec::new(), Vec::new());
        let integrity = reader
            .read(&mut |record| match record {
                Record::Definition(_, symbol @ Definition::Symbol { .. }) => {
                    assert!(records.is_empty(), "names come before all that they name");
                    symbols.push(symbol.clone());
                }
                record => records.push(format!("{record:?}")),
            })
            .unwrap();
        assert_eq!(integrity.symbols, symbols.len() as u64);
        Some(Self {
            header: reader.header().clone(),
            counters: reader.counters().rows,
            records,
            symbols,
            integrity,
        })
    }

    /// The same without the names, like the original capture.
    fn without_names(mut self) -> Self {
        self.symbols.clear();
        self.integrity.symbols = 0;
        self
    }
}

#[test]
fn names_come_back_and_all_else_stays() {
    let sample = Sample::new();
    let before = sample.told(&sample.bytes).unwrap();
    assert!(before.integrity.is_whole() && before.records.len() == 84);
    let embedded = sample.embedded(&sample.bytes, &symbols());
    assert_eq!(embedded[..sample.bytes.len()], sample.bytes);
    let after = sample.told(&embedded).unwrap();
    assert_eq!(after.symbols, symbols());
    assert_eq!(after.without_names(), before);
}

#[test]
fn a_cut_or_damaged_capture_says_the_same_of_itself_once_names_are_in_it() {
    cut_and_damage(10);
}

#[test]
#[ignore = "slow: at ten times as many places"]
fn a_capture_cut_or_damaged_anywhere_says_the_same_of_itself_once_names_are_in_it() {
    cut_and_damage(1);
}

fn cut_and_damage(step: usize) {
    let sample = Sample::new();
    let (mut told, mut partial) = (0, 0_usize);
    let mut compare = |bytes: &[u8]| {
        let Some(before) = sample.told(bytes) else {
            return;
        };
        let after = sample.told(&sample.embedded(bytes, &symbols())).unwrap();
        assert_eq!(after.symbols.len(), 100);
        told += 1;
        partial += usize::from(!before.integrity.is_whole());
        assert_eq!(after.without_names(), before);
    };
    for length in (24_576..sample.bytes.len()).step_by(97 * step) {
        compare(&sample.bytes[..length]);
    }
    for at in (0..sample.bytes.len()).step_by(41 * step) {
        let mut bytes = sample.bytes.clone();
        bytes[at] ^= 0x10;
        compare(&bytes);
    }
    // An unfinished page after the published ones.
    let unfinished = [&sample.bytes[..], b"GPUMPAGE", &[7; 300]].concat();
    compare(&unfinished);
    assert!(
        told > 600 / step && partial > 100 / step,
        "{told} files, {partial} partial"
    );
}

#[test]
fn embedding_again_replaces_the_names_and_the_same_names_give_the_same_bytes() {
    let sample = Sample::new();
    let once = sample.embedded(&sample.bytes, &symbols());
    assert_eq!(sample.embedded(&once, &symbols()), once);
    let fewer = sample.embedded(&once, &symbols()[..3]);
    assert_eq!(fewer, sample.embedded(&sample.bytes, &symbols()[..3]));
    assert_eq!(sample.told(&fewer).unwrap().symbols, symbols()[..3]);
    let none = sample.told(&sample.embedded(&once, &[])).unwrap();
    assert_eq!(none, sample.told(&sample.bytes).unwrap());
}

#[test]
fn damage_to_the_names_is_said_and_touches_nothing_else() {
    let sample = Sample::new();
    let before = sample.told(&sample.bytes).unwrap();
    let embedded = sample.embedded(&sample.bytes, &symbols());
    let own = sample.bytes.len();
    let check = |bytes: &[u8], what: &str| {
        let mut after = sample.told(bytes).unwrap();
        assert!(!after.integrity.damage.is_empty(), "{what} goes unsaid");
        let known = symbols();
        assert!(after.symbols.iter().all(|symbol| known.contains(symbol)));
        after.integrity.damage.clear();
        assert_eq!(after.without_names(), before, "{what}");
    };
    for at in own..embedded.len() {
        let mut bytes = embedded.clone();
        bytes[at] ^= 0x10;
        check(&bytes, &format!("byte {} of the part", at - own));
    }
    for length in own + 8..embedded.len() {
        check(&embedded[..length], &format!("cut after {}", length - own));
    }
    let behind = [&embedded[..], &[0; MARK]].concat();
    check(&behind, "something behind the names");
}

#[test]
fn other_definitions_and_endless_names_are_not_embedded() {
    let sample = Sample::new();
    let reader = Reader::open(&sample.file("from.bin", &sample.bytes)).unwrap();
    let endless = Definition::Symbol {
        module: ModuleId(1),
        address: 1,
        functions: (0..1000)
            .map(|n| Function {
                name: format!("{n}{}", "ä".repeat(20_000)),
                file: String::new(),
                line: 0,
            })
            .collect(),
    };
    let note = Definition::Note {
        text: "not a name".to_owned(),
    };
    let mut out = Vec::new();
    let written = embed(&reader, [note, endless], &mut out, &mut |_| {}).unwrap();
    assert_eq!(written, 1);
    let told = sample.told(&out).unwrap();
    assert!(told.integrity.is_whole(), "{:?}", told.integrity);
    let Definition::Symbol { functions, .. } = &told.symbols[0] else {
        panic!("{:?}", told.symbols);
    };
    assert_eq!(functions.len(), 128);
    assert!(
        functions[127].name.starts_with("999ä"),
        "the outermost stays"
    );
    assert!(
        functions
            .iter()
            .all(|function| function.name.len() <= 16 << 10)
    );
}
