//! The rows of a folder as JSON.

use std::path::PathBuf;

use crate::frames::{DeviceNow, Folder, FolderRow, Frame, State};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Ranks {
    folder: String,
    error: Option<String>,
    /// Captures that are not followed.
    beyond: u64,
    rows: Vec<Rank>,
}

#[derive(Serialize)]
struct Rank {
    number: usize,
    name: String,
    /// `None` if nothing has been read yet.
    now: Option<Now>,
    differs: Vec<Differs>,
}

#[derive(Serialize)]
struct Now {
    rank: Option<u64>,
    local_rank: Option<u64>,
    host: Option<String>,
    pid: u32,
    state: &'static str,
    read: Option<(u64, u64)>,
    why: Option<String>,
    device: Option<u8>,
    card: Option<u64>,
    tensors: u64,
    tensor_peak: u64,
    reserved: Option<u64>,
    process: u64,
    nvml: Option<u64>,
    steps: u64,
    failures: u64,
}

#[derive(Serialize)]
struct Differs {
    metric: &'static str,
    off: i64,
    peers: usize,
}

impl Ranks {
    pub(super) fn of(
        folder: &Folder,
        rows: &[FolderRow],
        number: impl Fn(&PathBuf) -> Option<usize>,
    ) -> Self {
        let rows = rows.iter().filter_map(|row| {
            let within = row.file.strip_prefix(folder.path()).unwrap_or(&row.file);
            let differs = row.differs.iter().map(|of| Differs {
                metric: of.metric.word(),
                off: of.off_bytes,
                peers: of.peer_count,
            });
            Some(Rank {
                number: number(&row.file)?,
                name: within.to_string_lossy().into_owned(),
                now: row.now.as_deref().map(now),
                differs: differs.collect(),
            })
        });
        Self {
            folder: folder.path().to_string_lossy().into_owned(),
            error: folder.error().map(str::to_owned),
            beyond: folder.beyond(),
            rows: rows.collect(),
        }
    }
}

fn now(of: &Frame) -> Now {
    let (state, read, why) = match &of.state {
        State::CatchingUp(at, all) => ("reading", Some((*at, *all)), None),
        State::Running => ("running", None, None),
        State::Ended(_) => ("ended", None, None),
        State::Killed(_) => ("killed", None, None),
        State::Stopped(why) => ("stopped", None, Some(why.clone())),
    };
    let on = of.main_device();
    Now {
        rank: of.rank(),
        local_rank: of.row.local_rank,
        host: of.row.host.clone(),
        pid: of.pid,
        state,
        read,
        why,
        device: of.row.device,
        card: of.row.card_bytes,
        tensors: on.map_or(0, |on| on.now.tensor),
        tensor_peak: of.row.tensor_peak_bytes,
        reserved: on.and_then(|on| on.now.reserved),
        process: on.map_or(0, DeviceNow::process),
        nvml: on.and_then(DeviceNow::nvml),
        steps: of.steps,
        failures: of.failure_count,
    }
}
