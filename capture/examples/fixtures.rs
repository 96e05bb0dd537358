//! `fixtures FOLDER`: makes the captures of tests/fixtures/captures that no program needs to run for, in the newest
//! version of the format. Those of a released version are made once and kept as they are: each run would give other
//! nonces and times.
//!
//! `fixtures --killed FOLDER RINGS`: `killed.bin` of a process that was killed, with its ring in a file in `RINGS`, a
//! folder in memory. For tests that need a ring of this machine and boot.

use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpumem_capture::baked::bake;
use gpumem_capture::*;

const SLOT: usize = 64;
const RING: usize = 24_576;
/// Offset of the second copy of the static header.
const COPY: usize = 2048;
/// Offsets of facts of the dynamic header.
const KNOWN: usize = 4096;
const TAIL: usize = 4160;
const PAGES_END: usize = 4168;
const JOURNAL: usize = 4480;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A capture under construction, with a small ring that is drained only when it is told to be.
struct Made {
    path: PathBuf,
    writer: &'static Writer,
}

impl Made {
    fn new(folder: &Path, name: &str, slots: u32) -> Result<Self> {
        Self::with(folder, name, slots, RingPlace::InCapture)
    }

    /// The same with the ring somewhere else.
    fn with(folder: &Path, name: &str, slots: u32, ring: RingPlace) -> Result<Self> {
        let path = folder.join(name);
        let options = Options::default().ring_slots(slots).stall(Duration::ZERO);
        let options = options.ring(ring).queue_bytes(64 << 10);
        let writer = Writer::create(&path, &options)?;
        writer.stop_drain();
        Ok(Self { path, writer })
    }

    fn define(&self, definition: &Definition) -> Result<()> {
        let payload = definition.payload();
        self.writer.definition(definition.kind(), &[&payload])?;
        Ok(())
    }

    /// What a process says first: a program, a GPU, an API, a thread.
    fn introduce(&self) -> Result<()> {
        for (key, value) in [
            (ProcessKey::COMMAND, "python train.py"),
            (ProcessKey::HOST, "hörst"),
        ] {
            let (key, value) = (key.to_owned(), value.to_owned());
            self.define(&Definition::Process { key, value })?;
        }
        self.define(&Definition::Device {
            ordinal: DeviceOrdinal(0),
            total_bytes: 16 << 30,
            uuid: *b"0123456789abcdef",
            name: "Simulated GPU".into(),
            pci: "0000:01:00.0".into(),
        })?;
        self.define(&Definition::Api {
            id: ApiId(1),
            name: "pytorch".into(),
        })?;
        self.define(&Definition::Hook {
            function: "cuMemAlloc_v2".into(),
            way: "dlsym".into(),
            library: "libcudart.so.13".into(),
        })
    }

    /// The `n`th of a regular coming and going of blocks at two levels.
    fn event(&self, n: u64) {
        let slot = n / 2 % 7;
        let event = Event {
            time: Nanos(1000 * 64 * n),
            ptr: 0x7f00_0000_0000 + slot * 0x20_0000,
            bytes: (slot % 3 + 1) * 512,
            aux: 2 << 20,
            thread: ThreadId(4242),
            kind: if n.is_multiple_of(2) {
                EventKind::ALLOC
            } else {
                EventKind::FREE
            },
            level: Level((slot % 2) as u8),
            device: DeviceOrdinal(0),
            api: ApiId(1),
            ..Event::default()
        };
        // A full ring is what one of the fixtures is for.
        let _ = self.writer.event(&event);
    }

    /// A definition of five slots; returns the seq behind it.
    fn note(&self) -> Result<u64> {
        let payload = Definition::Note {
            text: "n".repeat(200),
        }
        .payload();
        let Seq(seq) = self.writer.definition(DefKind::NOTE, &[&payload])?;
        Ok(seq + 5)
    }

    /// Waits until the file has all records before `known`, and returns how many of them are not in its pages.
    fn pages_behind(&self, known: u64) -> Result<u64> {
        let began = Instant::now();
        loop {
            let bytes = self.bytes()?;
            // Sealed numbers: below 2^32 here.
            let index = |at: usize| {
                let mut le = [0; 4];
                le.copy_from_slice(&bytes[at..at + 4]);
                u64::from(u32::from_le_bytes(le))
            };
            if index(KNOWN) == known {
                return Ok(known - index(TAIL));
            }
            if began.elapsed() > Duration::from_secs(20) {
                return Err("the file does not have the newest records".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        Ok(std::fs::read(&self.path)?)
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        Ok(std::fs::write(&self.path, bytes)?)
    }
}

/// A process that ended in an orderly way, with every kind of record.
fn clean(folder: &Path) -> Result<()> {
    let made = Made::new(folder, "clean.bin", 1024)?;
    made.introduce()?;
    for definition in every_definition() {
        made.define(&definition)?;
    }
    for kind in 1..=25 {
        made.writer.event(&Event {
            time: Nanos(64 * u64::from(kind)),
            ptr: 0x1000 * u64::from(kind),
            bytes: 4096,
            aux: if kind == 17 { 1024 } else { u64::from(kind) },
            py_stack: StackId(2 + 2 * u32::from(kind % 2)),
            native_stack: StackId(3),
            thread: ThreadId(7),
            kind: EventKind(kind),
            level: Level(if kind == 17 { 3 } else { kind % 3 }),
            device: if kind == 12 {
                DeviceOrdinal::NONE
            } else {
                DeviceOrdinal(kind % 2)
            },
            api: ApiId(1),
            flags: EventFlags(1 << (kind % 14)),
        })?;
    }
    made.writer.drain();
    made.writer.finish();
    Ok(())
}

fn every_definition() -> Vec<Definition> {
    let text = |text: &str| text.to_owned();
    vec![
        Definition::Code {
            id: CodeId(1),
            first_line: 10,
            file: text("träin.py"),
            name: text("Model.forward"),
            line_table: (0..200).collect(),
        },
        Definition::PyStack {
            id: StackId(2),
            truncated: true,
            frames: vec![
                PyFrame {
                    code: CodeId(1),
                    offset: -2,
                    entered_from_c: true,
                },
                PyFrame {
                    code: CodeId(0),
                    offset: 1 << 20,
                    entered_from_c: false,
                },
            ],
        },
        Definition::NativeStack {
            id: StackId(3),
            truncated: false,
            frames: vec![0x7f00_0000_1234, 0x5555_0000_0001, u64::MAX],
        },
        Definition::Backward {
            id: StackId(4),
            lost: false,
            forward: StackId(2),
            own: StackId(0),
            newer: 1,
            node: text("N5torch8autograd9generated12AddBackward0E"),
        },
        Definition::Module {
            id: ModuleId(1),
            bias: 0x7f00_0000_0000,
            start: 0x7f00_0000_1000,
            end: 0x7f00_0000_2000,
            path: text("/usr/lib/libc.so.6"),
            build_id: vec![0xab; 20],
        },
        Definition::ModuleEnd { id: ModuleId(1) },
        Definition::Thread {
            id: ThreadId(7),
            name: text("pt_autograd_0"),
        },
        Definition::Python {
            version: 0x030c_01f0,
            eval_start: 1,
            eval_end: 2,
        },
        Definition::Note {
            text: text("something to say"),
        },
        Definition::Range {
            id: 1,
            name: text("epoch"),
        },
        Definition::Process {
            key: text("calls.cuMemAlloc_v2"),
            value: text("17"),
        },
        symbol(7),
    ]
}

fn symbol(n: u32) -> Definition {
    let function = |name: &str, line| Function {
        name: name.to_owned(),
        file: "grow.cpp".into(),
        line,
    };
    Definition::Symbol {
        module: ModuleId(1 + n / 50),
        address: 0x1000 * u64::from(n),
        functions: vec![function("inner<int>", n), function("outer(int)+0x1c", 0)],
    }
}

/// A process that died while records were in the ring, some of them begun and not finished.
fn killed(folder: &Path) -> Result<()> {
    let made = Made::new(folder, "killed.bin", 64)?;
    made.introduce()?;
    made.writer.drain();
    let before = made.bytes()?;
    (0..9).for_each(|n| made.event(n));
    made.note()?;
    (9..20).for_each(|n| made.event(n));
    // A hook dies before it stores the commit word: an event's, and a definition's of five slots.
    let mut bytes = made.bytes()?;
    let first = (RING..)
        .step_by(SLOT)
        .take(64)
        .find(|at| bytes[*at..at + SLOT] != before[*at..at + SLOT])
        .unwrap_or(RING);
    for slot in [first + 7 * SLOT, first + 9 * SLOT] {
        bytes[slot..slot + 8].fill(0);
    }
    made.write(&bytes)
}

/// A ring that nobody emptied in time, twice.
fn lost(folder: &Path) -> Result<()> {
    let made = Made::new(folder, "lost.bin", 64)?;
    made.introduce()?;
    (0..80).for_each(|n| made.event(n));
    let refused = made.define(&Definition::Note {
        text: "refused".into(),
    });
    assert!(refused.is_err(), "the ring is full");
    made.writer.drain();
    (80..200).for_each(|n| made.event(n));
    made.writer.drain();
    made.writer.finish();
    Ok(())
}

/// Kinds of records that this version does not have, and more behind a known one's fields.
fn unknown(folder: &Path) -> Result<()> {
    let made = Made::new(folder, "unknown.bin", 64)?;
    made.introduce()?;
    made.writer.definition(DefKind(200), &[&[7; 100]])?;
    made.writer.definition(DefKind(255), &[])?;
    made.writer
        .definition(DefKind::NOTE, &[&[4, 0, 0, 0], b"note", b"and more"])?;
    let kind = |kind| Event {
        kind: EventKind(kind),
        level: Level(9),
        device: DeviceOrdinal(70),
        ..Event::default()
    };
    made.writer.event(&kind(100))?;
    made.writer.drain();
    made.writer.definition(DefKind(199), &[&[9; 65]])?;
    made.writer.event(&kind(127))?;
    (0..6).for_each(|n| made.event(n));
    made.writer.finish();
    Ok(())
}

/// Five pages, several laps of the ring, and records of several slots that wrap around its end.
fn several(folder: &Path, name: &str) -> Result<Made> {
    let made = Made::new(folder, name, 64)?;
    made.introduce()?;
    made.writer.drain();
    for page in 0..4 {
        (0..40).for_each(|n| made.event(40 * page + n));
        made.writer.drain();
    }
    for n in 0..5 {
        made.define(&Definition::NativeStack {
            id: StackId(n + 1),
            truncated: n == 2,
            frames: (0..50)
                .map(|frame| 0x7f00_0000_0000 + frame * 64 + u64::from(n))
                .collect(),
        })?;
        made.event(160 + u64::from(n));
    }
    Ok(made)
}

fn changed(made: &Made, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
    let mut bytes = made.bytes()?;
    change(&mut bytes);
    made.write(&bytes)
}

fn pages(bytes: &[u8]) -> Vec<usize> {
    let magic = bytes.windows(8).enumerate();
    magic
        .filter(|(_, at)| at == b"GPUMPAGE")
        .map(|(at, _)| at)
        .collect()
}

/// A capture with names baked in behind it.
fn baked(folder: &Path) -> Result<()> {
    let made = several(folder, "baked.bin")?;
    let reader = Reader::open(&made.path)?;
    let mut out = Vec::new();
    bake(&reader, (0..60).map(symbol), &mut out, &mut |_| {})?;
    made.write(&out)
}

/// A process that ended in an orderly way and whose ring was elsewhere.
fn closed(folder: &Path) -> Result<()> {
    let rings = RingPlace::Folders(vec!["/dev/shm".into()]);
    let made = Made::with(folder, "closed.bin", 64, rings)?;
    made.introduce()?;
    for page in 0..3 {
        (0..20).for_each(|n| made.event(20 * page + n));
        made.writer.drain();
    }
    (60..70).for_each(|n| made.event(n));
    made.writer.finish();
    made.writer.close_drain();
    made.writer.drain();
    Ok(())
}

/// What a process that is going to be killed does: pages in the capture, one in the queue, records in the ring.
fn victim(folder: &Path, rings: &Path) -> Result<()> {
    let rings = RingPlace::Folders(vec![rings.to_owned()]);
    let made = Made::with(folder, "killed.bin", 64, rings)?;
    made.introduce()?;
    (0..20).for_each(|n| made.event(n));
    made.writer.drain();
    (20..45).for_each(|n| made.event(n));
    made.writer.run_drain(None, &|_| {}, &|| {});
    (45..60).for_each(|n| made.event(n));
    made.note()?;
    (60..64).for_each(|n| made.event(n));
    println!("ready");
    loop {
        std::thread::park();
    }
}

/// The same with a drain at work, which leaves the newest records in the ring: the capture's file has them in its
/// journal soon.
fn journal_victim(folder: &Path, rings: &Path) -> Result<()> {
    let rings = RingPlace::Folders(vec![rings.to_owned()]);
    let path = folder.join("journal.bin");
    let options = Options::default().ring_slots(64).ring(rings);
    let writer = Writer::create(&path, &options)?;
    let made = Made { path, writer };
    std::thread::spawn(|| writer.drain());
    made.introduce()?;
    (0..20).for_each(|n| made.event(n));
    let mut known = made.note()?;
    while made.pages_behind(known)? > 0 {}
    // So few records become a page after a second, and are in the journal much sooner; mostly.
    let mut n = 20;
    while made.pages_behind(known)? == 0 {
        (n..n + 6).for_each(|n| made.event(n));
        known = made.note()?;
        n += 6;
    }
    println!("ready");
    loop {
        std::thread::park();
    }
}

/// A process that was killed and whose ring is gone. The journal is moved close to the pages: the file is to be small.
fn journal(folder: &Path) -> Result<()> {
    let (other, rings) = (tempfile::tempdir()?, tempfile::tempdir_in("/dev/shm")?);
    let (path, _) = kill("journal", other.path(), rings.path())?;
    let mut bytes = std::fs::read(path)?;
    let word = |bytes: &[u8], at: usize| {
        let mut le = [0; 8];
        le.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(le)
    };
    let [nonce, end, time, at] = [16, PAGES_END, JOURNAL, JOURNAL + 8].map(|at| word(&bytes, at));
    let end = (end as u32 as usize).next_multiple_of(4096);
    bytes.drain(end..at as usize);
    let facts = [time, end as u64, 0];
    let words = [&[nonce, JOURNAL as u64], &facts[..]].concat();
    let checked: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let check = 1 << 32 | u64::from(crc32c::crc32c(&checked));
    for (n, word) in facts.iter().chain([&check]).enumerate() {
        bytes[JOURNAL + 8 * n..][..8].copy_from_slice(&word.to_le_bytes());
    }
    let path = folder.join("journal.bin");
    std::fs::write(&path, bytes)?;
    let integrity = Reader::open(&path)?.read(&mut |_| {})?;
    assert!(integrity.is_whole(), "{integrity:?}");
    Ok(())
}

/// Runs one of these in a process of its own and kills it; returns the capture and its ring.
fn kill(name: &str, folder: &Path, rings: &Path) -> Result<(PathBuf, PathBuf)> {
    let mut process = Command::new(std::env::current_exe()?)
        .arg(format!("--{name}-victim"))
        .args([folder, rings])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut ready = [0; 5];
    let mut out = process.stdout.take().ok_or("no output")?;
    out.read_exact(&mut ready)?;
    process.kill()?;
    process.wait()?;
    let mut entries = std::fs::read_dir(rings)?.flatten();
    let ring = entries.next().ok_or("the ring outlives its process")?;
    Ok((folder.join(format!("{name}.bin")), ring.path()))
}

/// Clears the commit words of two records in the ring's file that nobody knows to be committed: an event's, and a
/// definition's of five slots.
fn unfinish(ring: &Path) -> Result<()> {
    let file = std::fs::File::options().read(true).write(true).open(ring)?;
    let mut bytes = vec![0; RING + 64 * SLOT];
    file.read_exact_at(&mut bytes, 0)?;
    let of_kind = |kind: u8| {
        let mut slots = (RING..bytes.len()).step_by(SLOT);
        slots
            .rfind(|at| bytes[*at] != 0 && bytes[at + 52] == kind && bytes[at + 60] != 0)
            .ok_or("no such record")
    };
    for at in [of_kind(1)?, of_kind(DefKind::NOTE.0)?] {
        file.write_all_at(&[0; 8], at as u64)?;
    }
    Ok(())
}

/// A killed process's capture with its ring beside it.
fn with_its_ring(folder: &Path, rings: &Path) -> Result<PathBuf> {
    let (path, ring) = kill("killed", folder, rings)?;
    unfinish(&ring)?;
    Ok(path)
}

/// A process that was killed and whose ring was taken over.
fn merged(folder: &Path) -> Result<()> {
    let (other, rings) = (tempfile::tempdir()?, tempfile::tempdir_in("/dev/shm")?);
    let path = with_its_ring(other.path(), rings.path())?;
    assert_eq!(merge(&path)?, Merged::Done);
    std::fs::copy(path, folder.join("merged.bin"))?;
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let usage = "usage: fixtures FOLDER, fixtures --killed FOLDER RINGS";
    let folder = match &arguments[..] {
        [folder] => Path::new(folder),
        [what, folder, rings] => {
            let (folder, rings) = (Path::new(folder), Path::new(rings));
            return match what.to_str() {
                Some("--killed") => with_its_ring(folder, rings).map(drop),
                Some("--killed-victim") => victim(folder, rings),
                Some("--journal-victim") => journal_victim(folder, rings),
                _ => Err(usage.into()),
            };
        }
        _ => return Err(usage.into()),
    };
    clean(folder)?;
    closed(folder)?;
    journal(folder)?;
    merged(folder)?;
    killed(folder)?;
    lost(folder)?;
    unknown(folder)?;
    baked(folder)?;
    several(folder, "wrapped.bin")?;
    changed(&several(folder, "first-header.bin")?, |bytes| {
        bytes[30] ^= 1
    })?;
    changed(&several(folder, "second-header.bin")?, |bytes| {
        bytes[COPY + 84] ^= 1
    })?;
    changed(&several(folder, "both-headers.bin")?, |bytes| {
        bytes[30] ^= 1;
        bytes[COPY + 30] ^= 1;
    })?;
    changed(&several(folder, "page-content.bin")?, |bytes| {
        let start = pages(bytes)[2];
        bytes[start + 150] ^= 0x20;
    })?;
    changed(&several(folder, "page-header.bin")?, |bytes| {
        let start = pages(bytes)[1];
        bytes[start + 40] ^= 1;
    })?;
    changed(&several(folder, "cut-off.bin")?, |bytes| {
        let last = pages(bytes)[4];
        bytes.truncate(last + 200);
    })?;
    changed(&several(folder, "unfinished-page.bin")?, |bytes| {
        let first = pages(bytes)[0];
        let page = bytes[first..first + 150].to_vec();
        bytes.extend(page);
    })?;
    changed(&several(folder, "cut-in-ring.bin")?, |bytes| {
        bytes.truncate(RING + 30 * SLOT + 7)
    })?;
    changed(&several(folder, "slots.bin")?, |bytes| {
        bytes[RING + 20 * SLOT + 24] ^= 1;
        bytes[RING + 12 * SLOT] ^= 1;
        bytes[RING + 63 * SLOT + 9] ^= 1;
    })?;
    Ok(())
}
