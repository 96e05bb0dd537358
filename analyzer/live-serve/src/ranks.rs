//! The rows of a folder as JSON.

use std::path::PathBuf;

use gpumem_live::{Folder, FolderRow, State};
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct Ranks {
    folder: String,
    error: Option<String>,
    /// Captures that are not followed.
    beyond: usize,
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
    pub(crate) fn of(
        folder: &Folder,
        rows: &[FolderRow],
        number: impl Fn(&PathBuf) -> Option<usize>,
    ) -> Self {
        let rows = rows.iter().filter_map(|row| {
            let within = row.file.strip_prefix(folder.path()).unwrap_or(&row.file);
            let differs = row.differs.iter().map(|of| Differs {
                metric: of.metric.word(),
                off: of.off_bytes,
                peers: of.peers,
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

fn now(of: &gpumem_live::RankNow) -> Now {
    let (state, read, why) = match &of.state {
        State::CatchingUp(at, all) => ("reading", Some((*at, *all)), None),
        State::Running => ("running", None, None),
        State::Ended(_) => ("ended", None, None),
        State::Killed(_) => ("killed", None, None),
        State::Stopped(why) => ("stopped", None, Some(why.clone())),
    };
    Now {
        rank: of.rank,
        local_rank: of.local_rank,
        host: of.host.clone(),
        pid: of.pid,
        state,
        read,
        why,
        device: of.device.map(|device| device.0),
        card: of.card,
        tensors: of.tensors,
        tensor_peak: of.tensor_peak,
        reserved: of.reserved,
        process: of.process,
        nvml: of.nvml,
        steps: of.steps,
        failures: of.failures,
    }
}
