//! Seeds of the fuzz targets.
//!
//! - `seeds make FOLDER`: the first seeds of each target, a folder for each, from captures of the repository and texts.
//! - `seeds pack FOLDER FILE`: one file of at most 100 of a folder's inputs, of all lengths.
//! - `seeds unpack FILE FOLDER`: a folder of a file's inputs.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use gpumem_capture::fuzzing::{names_seed, page_seed, ring_seed, state_seed};
use gpumem_capture::{Definition, Event, Reader, Record, Seq};
use gpumem_fuzz_rules::{pack, unpack};
use gpumem_replay::fuzzing::state_of;

/// The most seeds of a target, and the most bytes of all its seeds.
const SEEDS: usize = 100;
const BYTES: usize = 110 << 10;

const HTTP: &[&str] = &[
    "GET /?token=TOKEN\nhost: localhost:80",
    "GET /events?token=TOKEN&by=module&level=driver&device=0&sort=name&filter=a%20b\nhost: 127.0.0.1",
    "HEAD /moment?token=TOKEN&client=a1&at=event:7&want=row:0123456789abcdef&level=tensor\nhost: [::1]:80",
    "GET /moment?client=b&at=time:99&want=cause:3&token=TOKEN\nhost: gpu7\ncontent-length: 0",
    "POST /?token=TOKEN\nhost: localhost\ncontent-length: 3",
    "GET /../%2e?token=TOKEN&token=TOKEN\nhost: evil.example",
];
const MCP: &[&str] = &[
    "captures\n{}",
    "summary\n{\"capture\":\"report.bin\"}",
    "why\n{\"capture\":\"report.bin\"}",
    "lines\n{\"capture\":\"report.bin\",\"level\":\"driver\",\"at\":\"end\",\"by\":\"category\"}",
    "lines\n{\"capture\":\"report.bin\",\"cursor\":\"0.0\"}",
    "tree\n{\"capture\":\"report.bin\",\"at\":\"event:3\",\"device\":0}",
    "diff\n{\"before\":\"report.bin\",\"after\":\"report.bin\",\"at\":\"peak\"}",
    "leaks\n{\"capture\":\"report.bin\"}",
    "ledger\n{\"capture\":\"report.bin\",\"at\":\"time:1.5\"}",
    "hints\n{\"capture\":\"report.bin\"}",
    "source\n{\"capture\":\"report.bin\",\"file\":\"train.py\",\"line\":3}",
    "summary\n{\"capture\":\"../../etc/passwd\"}",
];
const BUDGETS: &[&str] = &[
    "[budget.\"train\"]\npeak = \"2.5 GiB\"\nlevel = \"driver\"\ngrow = \"1%\"\n",
    "[budget.a]\npeak = 1048576\n[[allow]]\nworkload = \"a\"\ngrow = \"64 MiB\"\nuntil = 2026-12-31\nreason = \"#1\"\n",
    "[budget.a]\npeak = -1",
    "[budgets.a]\npeak = \"2 G\"",
];
const MACHINES: &[&str] = &[
    "GPUMEM_SIM_DEVICES=2\nGPUMEM_SIM_MEMORY=0=16GiB,1=8GiB\nGPUMEM_SIM_CC=90,1=8.0\nCUDA_VISIBLE_DEVICES=1,0",
    "GPUMEM_SIM_MIG=0=2\nGPUMEM_SIM_PAGE_BYTES=64KiB\nCUDA_VISIBLE_DEVICES=MIG-0",
    "GPUMEM_SIM_NAME=Tesla T4\nGPUMEM_SIM_OTHER_BYTES=1=2GiB\nGPUMEM_SIM_NVML_PIDS=host\nCUDA_DEVICE_ORDER=PCI_BUS_ID",
];
const SYMBOLS: &[&str] = &[
    "_ZN2at6native4growEi",
    "_ZN4pool12_GLOBAL__N_14growEv",
    "_ZN4core3fmt5write17h0123456789abcdefE",
    "_RNvCs1234_7mycrate3foo",
    "N5torch8autograd7CppNodeIN2me6SquareEEE",
    "N1aIPFvS_S_EPFvS0_S0_EEE",
    "_ZN3c108ArrayRefIlEC1ERKSt6vectorIlSaIlEE",
    "at::empty(c10::ArrayRef<long>, int)+0x1c",
    "<Guard<String> as Payload>::take<u8>",
];
const PERF_MAPS: &[&str] = &[
    "7f00 100 py::train:/home/me/train.py\n8000 80 old kernel\n0x9000 0x10 numba_add\nnonsense\n8040 80 new kernel\n",
    "0 ffffffffffffffff all\nfffffffffffffff0 20 beyond\n10 10 \u{1b}[2J\n",
];

fn put(folder: &Path, target: &str, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let folder = folder.join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}

/// The state after a capture's records.
fn state(path: &Path) -> Result<(Vec<u8>, Seq), Box<dyn Error>> {
    enum Own {
        Event(Seq, Event),
        Definition(Seq, Box<Definition>),
    }
    let mut records = Vec::new();
    Reader::open(path)?.read(&mut |record| match record {
        Record::Event(seq, event) => records.push(Own::Event(seq, *event)),
        Record::Definition(seq, definition) => {
            records.push(Own::Definition(seq, Box::new(definition.clone())));
        }
        Record::State(..) => {}
    })?;
    let records = records.iter().map(|record| match record {
        Own::Event(seq, event) => Record::Event(*seq, event),
        Own::Definition(seq, definition) => Record::Definition(*seq, definition),
    });
    Ok(state_of(records, usize::from(u16::MAX)))
}

fn captures(to: &Path, tests: &Path) -> Result<(), Box<dyn Error>> {
    let fixtures = fs::read_dir(tests.join("fixtures/captures/v1"))?;
    let mut paths: Vec<PathBuf> = fixtures
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension() == Some("bin".as_ref()))
        .collect();
    paths.extend(
        ["tiny", "oom", "stray", "leak"]
            .map(|name| tests.join(format!("data/captures/{name}.bin"))),
    );
    for (number, path) in paths.iter().enumerate() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let capture = fs::read(path)?;
        let (page, ring) = (page_seed(&capture), ring_seed(&capture));
        put(to, "page", &name, &page)?;
        put(to, "ring", &name, &ring)?;
        put(to, "names", &name, &names_seed(&capture))?;
        put(to, "file", &name, &capture)?;
        // The ring, some pages in the file, and one operation with others.
        let half = page.len().min(usize::from(u16::MAX));
        let length = (half as u16).to_le_bytes();
        let left = [&ring[..], &[0, 0], &[0], &length[..], &page[..half]].concat();
        put(to, "merge", &name, &left)?;
        if let Ok((state, next)) = state(path) {
            put(to, "state", &name, &state_seed(&state, next, &[]))?;
        }
        for view in [number * 2, number * 2 + 1] {
            let seed = [&[view as u8][..], &page].concat();
            put(to, "views", &format!("{name}-{view}"), &seed)?;
        }
    }
    Ok(())
}

fn make(to: &Path) -> Result<(), Box<dyn Error>> {
    captures(to, &Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    for (target, texts) in [
        ("http", HTTP),
        ("mcp", MCP),
        ("budgets", BUDGETS),
        ("machine", MACHINES),
        ("symbol", SYMBOLS),
        ("perf_map", PERF_MAPS),
    ] {
        for (number, text) in texts.iter().enumerate() {
            put(to, target, &number.to_string(), text.as_bytes())?;
        }
    }
    for version in 0..3 {
        let table = [0x82, 1, 5, 250, 9, 0x40, 0x10, 200, 0xf0, 3, 0xe8, 0x45, 1];
        let head = [version, 5, 0, 0, 0, 4, 0, 0, 0];
        put(
            to,
            "lines",
            &version.to_string(),
            &[&head[..], &table].concat(),
        )?;
    }
    put(
        to,
        "definition",
        "code",
        &[2, 1, 0, 0, 0, 4, 0, b't', b'.', b'p', b'y'],
    )?;
    let own = fs::read(std::env::current_exe()?)?;
    // The head of a library, whose tables are elsewhere.
    put(
        to,
        "library",
        "head",
        &[&[0; 8][..], &own[..own.len().min(4096)]].concat(),
    )?;
    Ok(())
}

/// At most this many inputs, at equal distances in their order.
fn spread(inputs: &[Vec<u8>], most: usize) -> Vec<&[u8]> {
    let count = inputs.len().min(most);
    let place = |number: usize| number * inputs.len() / count;
    (0..count)
        .map(|number| &inputs[place(number)][..])
        .collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", to] => make(Path::new(to))?,
        ["pack", from, to] => {
            let files = fs::read_dir(from)?.flatten();
            let mut inputs: Vec<Vec<u8>> = files
                .filter_map(|entry| fs::read(entry.path()).ok())
                .collect();
            inputs.sort_by_key(|input| (input.len(), input.clone()));
            inputs.dedup();
            let fits =
                |kept: &Vec<&[u8]>| kept.iter().map(|seed| seed.len()).sum::<usize>() <= BYTES;
            let mut choices = (1..=SEEDS).rev().map(|most| spread(&inputs, most));
            let kept = choices.find(fits).unwrap_or_default();
            fs::write(to, pack(kept.into_iter()))?;
        }
        ["unpack", from, to] => {
            fs::create_dir_all(to)?;
            for (number, seed) in unpack(&fs::read(from)?).iter().enumerate() {
                fs::write(Path::new(to).join(format!("seed-{number}")), seed)?;
            }
        }
        _ => return Err("usage: seeds make FOLDER | pack FOLDER FILE | unpack FILE FOLDER".into()),
    }
    Ok(())
}
