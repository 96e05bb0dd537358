//! The row of `ranks`.

use std::path::Path;
use std::sync::Arc;

use gpumem_capture::ProcessKey;
use gpumem_dataset::{Key, Label, Rank, SCHEMA};

use super::cells::{int, micros, word};
use super::options::Options;
use super::words::Words;
use crate::ranks::RankRow;
use crate::session::Session;

/// The row without the code's version, which is known only after all lines.
pub(super) fn row(
    session: &Session,
    capture: Key,
    name: &str,
    version: Arc<str>,
    words: &mut Words<'_>,
) -> Rank {
    let replay = &session.replay;
    let of = RankRow::of(Path::new(name), session);
    let fact = |key| replay.names.fact(key).filter(|text| !text.is_empty());
    let number = |key| fact(key)?.parse().ok();
    let is_ranked = of.is_numbered;
    let card = of.device.and_then(|device| {
        replay
            .names
            .devices
            .get(&gpumem_capture::DeviceOrdinal(device))
    });
    let job = fact(ProcessKey::JOB).map(|job| Vec::from_iter(job.split_whitespace()).join(" · "));
    let missing = (!of.missing.is_empty()).then(|| of.missing.join("; "));
    let peers = of.coordinates.as_ref().map(|at| at.of_peers().to_string());
    let python = replay.names.interpreter.map(|python| {
        let part = |shift: u32| python.version >> shift & 0xff;
        format!("{}.{}.{}", part(24), part(16), part(8))
    });
    let mut text = |text: Option<&str>| text.map(|text| words.plain(text));
    Rank {
        capture,
        schema: SCHEMA,
        pid: of.pid.into(),
        rank: is_ranked.then_some(int(of.rank)),
        world_size: number(ProcessKey::WORLD_SIZE),
        local_rank: of.local_rank.map(int),
        node_rank: of.node_rank.map(int),
        restarts: of.restarts.map(int),
        job: text(job.as_deref()),
        coordinates: text(of.coordinates.map(|at| at.to_string()).as_deref()),
        peers: peers.unwrap_or_default().into(),
        version,
        device: of.device.map(Into::into),
        gpu: text(
            card.map(|card| card.name.as_str())
                .filter(|name| !name.is_empty()),
        ),
        card_bytes: of.card_bytes.map(int),
        started: micros(session.header.started_wall_ns),
        ended: micros(of.end.at_unix_ns),
        ending: word(of.end.ended).into(),
        wanted_bytes: of.end.wanted_bytes.map(int),
        tensor_peak_bytes: int(of.tensor_peak_bytes),
        reserved_peak_bytes: int(of.reserved_peak_bytes),
        process_peak_bytes: int(of.device_peak_bytes),
        unexplained_bytes: of.unexplained_bytes,
        steps: int(of.steps),
        events: int(session.integrity.events),
        exact: session.account.is_exact(),
        pytorch: text(fact(ProcessKey::PYTORCH)),
        python: text(python.as_deref()),
        driver: text(fact(ProcessKey::DRIVER_VERSION)),
        recorder: text(fact(ProcessKey::RECORDER_VERSION)),
        allocator: text(fact(ProcessKey::ALLOCATOR_BACKEND)),
        allocator_settings: text(fact(ProcessKey::ALLOCATOR_CONF)),
        file: words.name(name),
        host: of.host.map(|host| words.name(&host)),
        program: fact(ProcessKey::COMMAND).map(|command| words.name(command)),
        uuid: of.uuid.map(|uuid| words.name(&uuid)),
        missing: missing.map(|missing| words.sentence(&missing).into()),
    }
}

pub(super) fn labels(capture: Key, options: &Options) -> Vec<Label> {
    let labels = options.labels.iter();
    let row = |(key, value): &(String, String)| Label {
        capture,
        key: key.as_str().into(),
        value: value.as_str().into(),
    };
    labels.map(row).collect()
}
