//! `held FILE THREAD`: prints what a replay of a capture holds at its end and at each device's peak: every block, and
//! every allocation and free except those of THREAD. One JSON object per line. Tests compare it with the log that the
//! recorded program wrote.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use gpumem_capture::{DeviceOrdinal, EventKind, Level, Reader, Record, Seq, ThreadId};
use gpumem_replay::{At, Replay, StackKey};

/// Levels that have blocks.
const LEVELS: [Level; 3] = [Level::TENSOR, Level::DRIVER, Level::HOST];

/// Stacks as tests compare them: the functions of the Python stack, newest first, and the return addresses of the
/// native stack; null for a stack without a definition.
fn stacks(replay: &Replay, key: StackKey) -> String {
    let names = &replay.names;
    let python = names.py_stacks.get(&names.own_stack(key.py));
    let functions = python.map(|(frames, _)| {
        let name = |code| names.codes.get(code).map(|code| code.name.as_str());
        let named = frames.iter().map(|frame| name(&frame.code).unwrap_or(""));
        // Names of functions need no escaping.
        named.map(|name| format!("\"{name}\"")).collect::<Vec<_>>()
    });
    let native = names.native_stacks.get(&key.native);
    let addresses = native.map(|(frames, _)| {
        let addresses = frames.iter().map(|frame| frame.address.to_string());
        addresses.collect::<Vec<_>>()
    });
    let list = |all: Option<Vec<String>>| match all {
        Some(all) => format!("[{}]", all.join(",")),
        None => "null".to_owned(),
    };
    format!(
        "\"python\":{},\"native\":{}",
        list(functions),
        list(addresses)
    )
}

/// All live blocks of a device, with names and stacks from `named`.
fn blocks(
    out: &mut impl Write,
    when: &str,
    (replay, named): (&Replay, &Replay),
    of: DeviceOrdinal,
) -> std::io::Result<()> {
    for ((device, level), row) in &replay.levels {
        if *device != of || !LEVELS.contains(level) {
            continue;
        }
        for (address, block) in row.live_blocks() {
            let stacks = stacks(named, named.stacks(block.key));
            writeln!(
                out,
                "{{\"when\":\"{when}\",\"level\":\"{level}\",\"device\":{},\"ptr\":{address},\
                 \"bytes\":{},\"seq\":{},{stacks}}}",
                device.0, block.bytes, block.seq.0,
            )?;
        }
    }
    Ok(())
}

/// Replays a capture up to an event, or all of it.
fn replayed(path: &Path, last: Option<Seq>) -> Result<Replay, Box<dyn std::error::Error>> {
    let mut replay = Replay::new(At::Peak);
    Reader::open(path)?.read(&mut |record| {
        let place = match record {
            Record::Event(seq, _) | Record::Definition(seq, _) | Record::State(seq, _) => seq,
        };
        if last.is_none_or(|last| place <= last) {
            replay.feed(record);
        }
    })?;
    Ok(replay)
}

/// The capture's allocations and frees of all threads except one, and the number of all events.
fn events(
    out: &mut impl Write,
    path: &Path,
    but: ThreadId,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut all, mut failed) = (0u64, None);
    Reader::open(path)?.read(&mut |record| {
        let Record::Event(_, event) = record else {
            return;
        };
        all += 1;
        let is_block = [EventKind::ALLOC, EventKind::FREE].contains(&event.kind);
        if event.thread == but || !is_block || !LEVELS.contains(&event.level) {
            return;
        }
        let written = writeln!(
            out,
            "{{\"thread\":{},\"of\":\"{}\",\"event\":[{},{},{}]}}",
            event.thread.0, event.level, event.kind.0, event.ptr, event.bytes
        );
        if let Err(error) = written {
            failed.get_or_insert(error);
        }
    })?;
    failed.map_or(Ok(()), Err)?;
    writeln!(out, "{{\"kept\":{all}}}")?;
    Ok(())
}

fn run(path: &Path, but: ThreadId) -> Result<(), Box<dyn std::error::Error>> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let replay = replayed(path, None)?;
    let states = replay.restored.map_or(0, |restored| restored.from.0);
    let evicted = replay.evicted;
    writeln!(
        out,
        "{{\"restored\":{states},\"evicted\":[{},{}]}}",
        evicted.stacks, evicted.blocks
    )?;
    events(&mut out, path, but)?;
    for ((device, level), row) in &replay.levels {
        let now = row.counters;
        writeln!(
            out,
            "{{\"row\":\"{level}\",\"device\":{},\"live\":{},\"peak\":{},\"allocations\":{},\"frees\":{},\
             \"allocated\":{}}}",
            device.0, now.live, now.peak, now.allocations, now.frees, now.allocated_bytes
        )?;
    }
    for (device, found) in &replay.devices {
        blocks(&mut out, "end", (&replay, &replay), *device)?;
        let Some((seq, _)) = found.moment else {
            continue;
        };
        let at = found.at_peak;
        writeln!(
            out,
            "{{\"peak_of\":{},\"seq\":{},\"tensor\":{},\"driver\":{},\"host\":{}}}",
            device.0, seq.0, at.tensor, at.driver, at.host
        )?;
        for level in LEVELS {
            for (key, figure) in replay.figures_at_device_peak(*device, level) {
                writeln!(
                    out,
                    "{{\"figure\":\"{level}\",\"device\":{},\"bytes\":{},\"blocks\":{},{}}}",
                    device.0,
                    figure.bytes,
                    figure.blocks,
                    stacks(&replay, key)
                )?;
            }
        }
        match replay.at_peak_of(*device) {
            Some((then, _)) => blocks(&mut out, "peak", (&then, &replay), *device)?,
            None => {
                let then = replayed(path, Some(seq))?;
                blocks(&mut out, "peak", (&then, &then), *device)?;
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, path, thread] = arguments.as_slice() else {
        eprintln!("usage: held FILE THREAD");
        return ExitCode::from(2);
    };
    match run(Path::new(path), ThreadId(thread.parse().unwrap_or(0))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("held: {error}");
            ExitCode::FAILURE
        }
    }
}
