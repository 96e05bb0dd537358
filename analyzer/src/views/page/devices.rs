//! A device on the page: its chart, its points in time, its ledger and its pool at the peak.

use gpumem_capture::{DeviceOrdinal, Level};
use serde::Serialize;

use super::chart::PageChart;
use super::history::{PageHistory, histories};
use super::input::{PageLimits, PageSources, clip};
use super::libraries::Libraries;
use super::stacks::{Build, PageMoment};
use crate::attribution::Owner;
use crate::replay::Replay;
use crate::views::{CategoryBytes, DeviceTimeline, Kind, Ledger, MOMENT_LEVELS, Pool, Segment};

/// How many lines of a segment are shown individually.
const LINES: usize = 6;
/// Rows of a ledger.
const ROWS: usize = 100;

/// A row of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageLedgerRow {
    /// The part.
    pub name: String,
    /// Bytes.
    pub bytes: i64,
    /// The line that holds most of it.
    pub line: String,
    /// Further details.
    pub detail: String,
    /// For tensors: their categories, as parts of the bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<CategoryBytes>,
}

/// The bytes of a line's tensors in a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageSegmentLine {
    /// The line.
    pub line: String,
    /// Bytes.
    pub bytes: u64,
}

/// A segment of PyTorch's pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageSegment {
    /// Its address.
    pub address: String,
    /// Size.
    pub bytes: u64,
    /// Tensors in it.
    pub live: u64,
    /// How many.
    pub blocks: u64,
    /// The largest gap.
    pub largest_free: u64,
    /// Whether it is of expandable segments.
    pub expandable: bool,
    /// The lines with most bytes in it. The others are summed.
    pub lines: Vec<PageSegmentLine>,
}

/// PyTorch's pool at the peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PagePool {
    /// What it holds from the driver.
    pub reserved: u64,
    /// Tensors.
    pub live: u64,
    /// The largest free block.
    pub largest_free: u64,
    /// The largest segments.
    pub segments: Vec<PageSegment>,
    /// The others: how many, bytes, tensors in them.
    pub others: [u64; 3],
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageDevice {
    /// `GPU 0`.
    pub title: String,
    /// Its name.
    pub name: String,
    /// Its ordinal.
    pub device: Option<u8>,
    /// Time, event and bytes of all bands at the peak.
    pub peak: Option<[u64; 3]>,
    /// The step and phase then.
    pub when: String,
    /// Memory over time.
    pub chart: PageChart,
    /// The history of blocks, level by level.
    pub history: Vec<PageHistory>,
    /// The same for pinned host memory.
    pub host: Option<PageHistory>,
    /// Whether the physical level was recorded: the memory behind pools and graphs.
    pub has_physical: bool,
    /// Points in time, by time.
    pub moments: Vec<PageMoment>,
    /// The ledger at the peak. Its rows sum to the total.
    pub ledger: Vec<PageLedgerRow>,
    /// The pool at the peak.
    pub pool: Option<PagePool>,
}

pub(super) fn device(
    device: &DeviceTimeline,
    from: &PageSources<'_>,
    stacks: &Build<'_>,
    libraries: &Libraries,
    limits: PageLimits,
) -> PageDevice {
    let replay = from.replay;
    let ordinal = device.device.map_or(DeviceOrdinal::NONE, DeviceOrdinal);
    let has = MOMENT_LEVELS.map(|level| replay.levels.contains_key(&(ordinal, level)));
    let moments = from.moments.get(&ordinal).into_iter().flatten();
    let ledger = from
        .ledgers
        .iter()
        .find(|ledger| ledger.device == ordinal.0);
    let of = |levels: &[Level]| histories(device, levels, from, (stacks, libraries), limits);
    PageDevice {
        title: match device.device {
            Some(ordinal) => format!("GPU {ordinal}"),
            None => "No device".into(),
        },
        name: clip(device.name.as_deref().unwrap_or(""), limits.name),
        device: device.device,
        peak: device
            .peak
            .as_ref()
            .map(|peak| [peak.time_ns, peak.seq, peak.sum()]),
        when: clip(&crate::views::when(&device.peak_when), limits.name),
        chart: PageChart::of(device, limits),
        history: of(&MOMENT_LEVELS),
        host: of(&[Level::HOST]).pop(),
        has_physical: replay.levels.contains_key(&(ordinal, Level::PHYSICAL)),
        moments: moments.map(|then| stacks.moment(then, has)).collect(),
        ledger: ledger.map_or(Vec::new(), |ledger| rows(replay, ledger, limits)),
        pool: ledger
            .and_then(|ledger| ledger.pool.as_ref())
            .filter(|_| replay.levels.contains_key(&(ordinal, Level::TENSOR)))
            .map(|pool| page_pool(replay, pool, limits)),
    }
}

fn rows(replay: &Replay, ledger: &Ledger, limits: PageLimits) -> Vec<PageLedgerRow> {
    let label = |owner: Option<&Owner>| owner.map_or(String::new(), |o| o.label(&replay.names));
    let mut rows: Vec<PageLedgerRow> = ledger
        .rows
        .iter()
        .take(ROWS)
        .map(|row| PageLedgerRow {
            name: clip(&row.name, limits.name),
            bytes: row.bytes,
            line: clip(&label(row.owner.as_ref()), limits.name),
            detail: clip(row.detail.as_deref().unwrap_or(""), limits.name),
            categories: match row.kind {
                Kind::Tensors => ledger.categories_told_apart().to_vec(),
                _ => Vec::new(),
            },
        })
        .collect();
    if let Some(rest) = ledger.rows.get(ROWS..).filter(|rest| !rest.is_empty()) {
        rows.push(PageLedgerRow {
            name: format!("{} more rows", rest.len()),
            bytes: rest.iter().map(|row| row.bytes).sum(),
            line: String::new(),
            detail: String::new(),
            categories: Vec::new(),
        });
    }
    rows
}

fn page_pool(replay: &Replay, pool: &Pool, limits: PageLimits) -> PagePool {
    let shown = pool.segments.iter().take(limits.segments);
    let rest = pool.segments.get(limits.segments..).unwrap_or(&[]);
    PagePool {
        reserved: pool.reserved_bytes,
        live: pool.live_bytes,
        largest_free: pool.largest_free_block_bytes,
        segments: shown.map(|of| segment(replay, of, limits)).collect(),
        others: [
            rest.len() as u64,
            rest.iter().map(|of| of.bytes).sum(),
            rest.iter().map(|of| of.live_bytes).sum(),
        ],
    }
}

fn segment(replay: &Replay, of: &Segment, limits: PageLimits) -> PageSegment {
    let shown = of.lines.iter().take(LINES);
    let mut lines: Vec<PageSegmentLine> = shown
        .map(|line| PageSegmentLine {
            line: clip(&line.owner.label(&replay.names), limits.name),
            bytes: line.bytes,
        })
        .collect();
    if let Some(rest) = of.lines.get(LINES..).filter(|rest| !rest.is_empty()) {
        lines.push(PageSegmentLine {
            line: format!("{} more lines", rest.len()),
            bytes: rest.iter().map(|line| line.bytes).sum(),
        });
    }
    PageSegment {
        address: format!("{:#x}", of.address),
        bytes: of.bytes,
        live: of.live_bytes,
        blocks: of.blocks,
        largest_free: of.largest_free_block_bytes,
        expandable: of.expandable,
        lines,
    }
}
