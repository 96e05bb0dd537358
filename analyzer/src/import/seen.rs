//! The facts about the allocator in a snapshot, for replays.

use gpumem_capture::{Definition, ProcessKey};

use super::capture::{CaptureError, Out, cut};
use super::device::Device;
use super::entry::{Action, Entry};
use super::snapshot::{Snapshot, SnapshotError};
use crate::account::many;
use crate::units::bytes;

/// Which fields all entries and segments have.
struct Has {
    requested: bool,
    stream: bool,
    pool: bool,
}

/// Writes the allocator's facts.
pub(super) fn tell(
    snapshot: &Snapshot<'_>,
    devices: &[Device<'_>],
    out: &mut Out,
) -> Result<(), super::error::ImportError> {
    let has = has(snapshot)?;
    // Without settings in its snapshot, the allocator of that PyTorch may be any.
    let backend = snapshot.settings.as_ref().map(|_| "native".to_owned());
    let conf = snapshot.settings.as_ref().map(|of| of.conf.clone());
    let rooms = devices.iter().filter_map(|device| {
        let room = device.room()?;
        Some(format!("{}={room}", device.ordinal()))
    });
    let rooms = rooms.collect::<Vec<_>>().join(",");
    for (key, value) in [
        (ProcessKey::ALLOCATOR_SEES, Some(words(&has, devices))),
        (
            ProcessKey::ALLOCATOR_UNKNOWN,
            Some(unknown(snapshot, devices)),
        ),
        (ProcessKey::ALLOCATOR_BACKEND, backend),
        (ProcessKey::ALLOCATOR_CONF, conf),
        (ProcessKey::ALLOCATOR_ROOM, Some(rooms)),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            fact(key, &value, out)?;
        }
    }
    Ok(())
}

fn fact(key: &str, value: &str, out: &mut Out) -> Result<(), CaptureError> {
    out.define(&Definition::Process {
        key: key.into(),
        value: cut(value),
    })
}

fn has(snapshot: &Snapshot<'_>) -> Result<Has, SnapshotError> {
    let segments = &snapshot.segments;
    let mut blocks = segments.iter().flat_map(|segment| &segment.blocks);
    let mut has = Has {
        requested: blocks.all(|block| block.is_exact),
        stream: segments.iter().all(|segment| segment.stream.is_some()),
        pool: segments.iter().all(|segment| segment.pool.is_some()),
    };
    for trace in &snapshot.traces {
        for entry in snapshot.entries(*trace) {
            let Entry {
                action,
                stream,
                pool,
                ..
            } = entry?;
            if action == Action::Alloc {
                has.stream &= stream.is_some();
                has.pool &= pool.is_some();
            }
        }
    }
    Ok(has)
}

/// Whether the trace has both the requests and the completions of a device's frees.
fn has_releases(device: &Device<'_>) -> bool {
    device.deferred().has_requests()
}

fn words(has: &Has, devices: &[Device<'_>]) -> String {
    let released = devices.iter().all(has_releases);
    let waited = devices.iter().any(|device| device.deferred().count() > 0);
    let words = [
        ("requested", has.requested),
        ("stream", has.stream),
        // If no release was deferred, no block was used on another stream for longer.
        ("record_stream", released && !waited),
        ("released", released),
        ("pool", has.pool),
    ];
    let seen = words.into_iter().filter(|(_, seen)| *seen);
    seen.map(|(word, _)| word).collect::<Vec<_>>().join(" ")
}

/// What the snapshot does not record, as the object of "does not say".
fn unknown(snapshot: &Snapshot<'_>, devices: &[Device<'_>]) -> String {
    let mut lines = vec![
        "calls of empty_cache that freed no memory, settings and memory fractions set at run time, and other memory on the card".to_owned(),
    ];
    let settings = snapshot.settings.as_ref();
    if settings.is_none_or(|settings| settings.were_changed) {
        lines.push(match settings {
            None => "the allocator's settings".to_owned(),
            Some(_) => "when its final settings took effect".to_owned(),
        });
    }
    lines.extend(devices.iter().flat_map(unknown_of));
    lines.join("\n")
}

fn unknown_of(device: &Device<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let (before, gpu) = (device.before(), format!("GPU {}", device.ordinal()));
    if device.trace().is_none() {
        lines.push(format!(
            "the allocations before the snapshot on {gpu}: it has no trace"
        ));
    } else if before.reserved > 0 || before.blocks > 0 {
        lines.push(format!(
            "the history of {} from before the trace, in {} of segments on {gpu}",
            many(before.blocks, "block", "blocks"),
            bytes(before.reserved)
        ));
    }
    let waited = device.deferred().count();
    if waited > 0 {
        lines.push(format!(
            "on which streams of {gpu} {} used that waited for them: other streams are assumed",
            many(waited, "block was", "blocks were")
        ));
    }
    let pools = device.pools();
    if pools > 0 {
        lines.push(format!(
            "when the use of {} of {gpu} began and ended",
            many(pools, "private pool", "private pools")
        ));
    }
    let (segments, lost) = device.unexplained();
    if segments > 0 {
        lines.push(format!(
            "whether {} with {} on {gpu} were freed because memory ran out or by the program: the first is assumed",
            many(segments, "segment", "segments"),
            bytes(lost)
        ));
    }
    lines
}
