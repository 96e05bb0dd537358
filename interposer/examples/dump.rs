//! `dump FILE`: every record of a capture that the interposer's tests use, one JSON object per line, in
//! sequence order; the last line is the integrity. Native stacks, modules and the line tables of code are
//! omitted.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use gpumem_capture::{Definition, Event, Reader, Record, Seq};

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn event(seq: Seq, e: &Event) -> String {
    format!(
        "{{\"seq\":{},\"kind\":{},\"level\":\"{}\",\"device\":{},\"api\":{},\"flags\":{},\"ptr\":{},\
         \"bytes\":{},\"aux\":{},\"thread\":{},\"time\":{},\"python\":{},\"native\":{}}}",
        seq.0,
        e.kind.0,
        e.level,
        e.device.0,
        e.api.0,
        e.flags.0,
        e.ptr,
        e.bytes,
        e.aux,
        e.thread.0,
        e.time.0,
        e.py_stack.0,
        e.native_stack.0
    )
}

fn definition(definition: &Definition) -> Option<String> {
    Some(match definition {
        Definition::Api { id, name } => format!("{{\"id\":{},\"api\":{}}}", id.0, quoted(name)),
        Definition::Device {
            ordinal,
            total_bytes,
            uuid,
            name,
            ..
        } => format!(
            "{{\"ordinal\":{},\"total_bytes\":{total_bytes},\"uuid\":\"{}\",\"name\":{}}}",
            ordinal.0,
            uuid.iter().map(|b| format!("{b:02x}")).collect::<String>(),
            quoted(name)
        ),
        Definition::Process { key, value } => {
            format!(
                "{{\"process\":{},\"value\":{}}}",
                quoted(key),
                quoted(value)
            )
        }
        Definition::Hook {
            function,
            way,
            library,
        } => format!(
            "{{\"hook\":{},\"way\":{},\"library\":{}}}",
            quoted(function),
            quoted(way),
            quoted(library)
        ),
        Definition::Note { text } => format!("{{\"note\":{}}}", quoted(text)),
        Definition::Code {
            id,
            first_line,
            file,
            name,
            ..
        } => format!(
            "{{\"code\":{},\"first_line\":{first_line},\"file\":{},\"name\":{}}}",
            id.0,
            quoted(file),
            quoted(name)
        ),
        Definition::PyStack { id, frames, .. } => {
            let codes: Vec<_> = frames.iter().map(|f| f.code.0.to_string()).collect();
            format!(
                "{{\"python_stack\":{},\"codes\":[{}]}}",
                id.0,
                codes.join(",")
            )
        }
        Definition::Backward {
            id,
            lost,
            forward,
            own,
            newer,
            node,
        } => format!(
            "{{\"backward\":{},\"lost\":{lost},\"forward\":{},\"own\":{},\"newer\":{newer},\"node\":{}}}",
            id.0,
            forward.0,
            own.0,
            quoted(node)
        ),
        Definition::Range { id, name } => {
            format!("{{\"range\":{id},\"name\":{}}}", quoted(name))
        }
        _ => return None,
    })
}

fn run(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut reader = Reader::open(path)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut failed = None;
    let counters = reader.counters();
    let integrity = reader.read(&mut |record| {
        let line = match record {
            Record::State(..) => None,
            Record::Event(seq, e) => Some(event(seq, e)),
            Record::Definition(seq, d) => {
                definition(d).map(|line| line.replacen('{', &format!("{{\"seq\":{},", seq.0), 1))
            }
        };
        if let Some(Err(error)) = line.map(|line| writeln!(out, "{line}")) {
            failed.get_or_insert(error);
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    for (device, level, values) in counters.rows {
        writeln!(
            out,
            "{{\"counters\":\"{level}\",\"device\":{},\"live\":{},\"peak\":{},\"allocations\":{},\
             \"frees\":{}}}",
            device.0, values.live, values.peak, values.allocations, values.frees
        )?;
    }
    writeln!(
        out,
        "{{\"whole\":{},\"lost\":{},\"clean_exit\":{},\"in_flight\":{}}}",
        integrity.is_whole(),
        integrity.events_lost,
        integrity.clean_exit,
        integrity.in_flight
    )?;
    Ok(())
}

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: dump FILE");
        return ExitCode::from(2);
    };
    match run(Path::new(&path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dump: {error}");
            ExitCode::FAILURE
        }
    }
}
