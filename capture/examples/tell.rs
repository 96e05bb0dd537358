//! `tell FILE…`: the complete contents of captures, one JSON object or array per line: the header, embedded
//! names, records, counters, the account. The tests compare it with the output of a second reader, which was
//! written from SPEC.md.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use gpumem_capture::{Definition, Event, Header, Integrity, OpenError, Reader, Record, RingState};
use serde_json::{Value, json};

/// Bytes in hex.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn header(header: &Header) -> Value {
    json!({
        "version": header.version,
        "nonce": header.nonce,
        "wall": header.started_wall_ns,
        "monotonic": header.started_monotonic_ns,
        "boottime": header.started_boottime_ns,
        "pid": header.pid,
        "parent_pid": header.parent_pid,
        "start": header.process_start_ticks,
        "boot_id": hex(&header.boot_id),
        "ring_slots": header.ring_slots,
        "ended": header.ended.map(|time| time.0),
    })
}

fn event(seq: u64, e: &Event) -> Value {
    json!([
        "event",
        seq,
        e.time.0,
        e.ptr,
        e.bytes,
        e.aux,
        e.py_stack.0,
        e.native_stack.0,
        e.thread.0,
        e.kind.0,
        e.level.0,
        e.device.0,
        e.api.0,
        e.flags.0,
        e.placement.0,
        e.slack
    ])
}

/// The fields in the order of SPEC.md's table, without unused ones.
fn fields(definition: &Definition) -> Value {
    use Definition as D;
    match definition {
        D::Api { id, name } => json!([id.0, name]),
        D::Code {
            id,
            first_line,
            file,
            name,
            line_table,
        } => json!([id.0, first_line, file, name, hex(line_table)]),
        D::PyStack {
            id,
            truncated,
            frames,
            modules,
        } => {
            let frames = frames
                .iter()
                .map(|f| json!([f.code.0, f.offset, u8::from(f.entered_from_c)]));
            let frames = frames.collect::<Value>();
            let calls: Vec<_> = modules
                .iter()
                .map(|m| json!([m.frame, m.module.0]))
                .collect();
            match calls.is_empty() {
                true => json!([id.0, u8::from(*truncated), frames]),
                false => json!([id.0, u8::from(*truncated), frames, calls]),
            }
        }
        D::NativeStack {
            id,
            truncated,
            frames,
        } => json!([id.0, u8::from(*truncated), frames]),
        D::Module {
            id,
            bias,
            start,
            end,
            path,
            build_id,
        } => json!([id.0, bias, start, end, path, hex(build_id)]),
        D::ModuleEnd { id } => json!([id.0]),
        D::Thread { id, name } => json!([id.0, name]),
        D::Device {
            ordinal,
            total_bytes,
            uuid,
            name,
            pci,
        } => json!([ordinal.0, total_bytes, hex(uuid), name, pci]),
        D::Process { key, value } => json!([key, value]),
        D::Hook {
            function,
            way,
            library,
        } => json!([function, way, library]),
        D::Python {
            version,
            eval_start,
            eval_end,
        } => json!([version, eval_start, eval_end]),
        D::Note { text } => json!([text]),
        D::Backward {
            id,
            lost,
            forward,
            own,
            newer,
            node,
        } => json!([id.0, u8::from(*lost), forward.0, own.0, newer, node]),
        D::Range { id, name } => json!([id, name]),
        D::Symbol {
            module,
            address,
            functions,
        } => {
            let functions = functions.iter().map(|f| json!([f.name, f.file, f.line]));
            json!([module.0, address, functions.collect::<Value>()])
        }
        D::NnModule { id, object, class } => json!([id.0, object, class]),
        D::NnModuleName { id, name } => json!([id.0, name]),
        D::Placement {
            id,
            device,
            stream,
            stream_id,
            pool,
        } => json!([
            id.0,
            device.0,
            stream,
            stream_id.unwrap_or(u64::MAX),
            pool.0,
            pool.1
        ]),
        D::Unknown { payload, .. } => json!([hex(payload)]),
        _ => Value::Null,
    }
}

/// The words, followed by the fields.
fn line(words: Value, definition: &Definition) -> Value {
    let (Value::Array(mut line), Value::Array(fields)) = (words, fields(definition)) else {
        return Value::Null;
    };
    line.extend(fields);
    Value::Array(line)
}

fn account(integrity: &Integrity) -> Value {
    let ranges = integrity.loss_ranges.iter();
    let damage = integrity.damage.iter().map(|damage| {
        json!([
            damage.what,
            damage.offset,
            damage.first_missing.map(|seq| seq.0),
            damage.next_good.map(|seq| seq.0)
        ])
    });
    json!({
        "events": integrity.events,
        "definitions": integrity.definitions,
        "pages": integrity.pages,
        "symbols": integrity.symbols,
        "events_lost": integrity.events_lost,
        "definitions_lost": integrity.definitions_lost,
        "loss_ranges": ranges.map(|r| json!([r.first.0, r.last.0, r.events])).collect::<Value>(),
        "in_flight": integrity.in_flight,
        "clean_exit": integrity.clean_exit,
        "drain_error": integrity.drain_error,
        "ring": match &integrity.ring {
            RingState::NotNeeded => json!("not needed"),
            RingState::Read => json!("read"),
            RingState::Gone(since) => json!(["gone", since.0]),
            RingState::Refused(_, since) => json!(["refused", since.0]),
            _ => Value::Null,
        },
        "damage": damage.collect::<Value>(),
    })
}

/// Why nothing can be read, in the term of SPEC.md.
fn refused(error: &OpenError) -> Option<&'static str> {
    Some(match error {
        OpenError::Empty { .. } => "empty",
        OpenError::Foreign { .. } => "foreign",
        OpenError::FutureVersion { .. } => "newer",
        OpenError::TooShort { .. } => "too short",
        OpenError::DamagedHeader { .. } => "damaged",
        _ => return None,
    })
}

fn tell(path: &Path, out: &mut dyn Write) -> Result<(), Box<dyn std::error::Error>> {
    let mut reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(error) => match refused(&error) {
            Some(word) => return Ok(writeln!(out, "{}", json!({ "refused": word }))?),
            None => return Err(error.into()),
        },
    };
    writeln!(out, "{}", header(reader.header()))?;
    let counters = reader.counters();
    let of = counters.of.map(|of| of.0);
    let rows = counters.rows.into_iter().map(|(device, level, v)| {
        json!([
            device.0,
            level.0,
            v.live,
            v.peak,
            v.allocations,
            v.frees,
            v.allocated_bytes
        ])
    });
    let rows = rows.collect::<Value>();
    // Embedded names come first, as many as the account reports afterwards.
    let mut lines = Vec::new();
    let integrity = reader.read(&mut |record| {
        lines.push(match record {
            Record::State(seq, bytes) => json!(["state", seq.0, bytes.len()]),
            Record::Event(seq, e) => event(seq.0, e),
            Record::Definition(seq, d @ Definition::Unknown { kind, .. }) => {
                line(json!(["unknown", seq.0, kind.0]), d)
            }
            Record::Definition(seq, d) => line(json!(["definition", seq.0, d.kind().0]), d),
        });
    })?;
    for (n, mut line) in lines.into_iter().enumerate() {
        if let Value::Array(words) = &mut line
            && (n as u64) < integrity.symbols
        {
            words.splice(..3, [json!("symbol")]);
        }
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{}", json!({ "counters": rows, "of": of }))?;
    writeln!(out, "{}", account(&integrity))?;
    Ok(())
}

fn main() -> ExitCode {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for path in std::env::args_os().skip(1) {
        if let Err(error) = tell(Path::new(&path), &mut out) {
            eprintln!("tell: {error}");
            return ExitCode::FAILURE;
        }
    }
    match out.flush() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
