//! Every environment option: its description, and how its value is parsed.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use gpumem_capture::Coordinates;
use gpumem_stacks::Stacks;

use super::values::{Options, Ring};
use crate::limit::spec::Spec;

/// One option, as printed by the help.
pub(crate) struct Described {
    pub(crate) name: &'static str,
    pub(crate) values: &'static str,
    pub(crate) default: &'static str,
    pub(crate) meaning: &'static str,
}

/// One row of the table: the description, and a function that sets the value; false if the value is invalid.
type Row = (Described, fn(&mut Options, &OsString) -> bool);

/// All options.
pub(super) static TABLE: &[Row] = &[
    (
        Described {
            name: "GPUMEM_OUTPUT",
            values: "a path; %p is the process id, %r the rank, %h the host's name",
            default: "report.bin, or report.rank<N>.bin under a launcher",
            meaning: "path of the capture. If the file exists, the recorder uses the next free name \
                      (report-2.bin) and never overwrites. In a folder, the capture has the default name; missing \
                      folders are created",
        },
        |options, value| {
            options.output = Some(value.clone());
            !value.is_empty()
        },
    ),
    (
        Described {
            name: "GPUMEM_STACKS",
            values: "mixed, python, native, off",
            default: "mixed",
            meaning: "stacks that each event records",
        },
        |options, value| {
            let stacks = match value.to_str() {
                Some("mixed") => Stacks::Mixed,
                Some("python") => Stacks::Python,
                Some("native") => Stacks::Native,
                Some("off") => Stacks::Off,
                _ => return false,
            };
            options.stacks = stacks;
            true
        },
    ),
    (
        Described {
            name: "GPUMEM_STACK_SAMPLE",
            values: "bytes, optionally with KiB, MiB or GiB, 4KiB to 1GiB (recommended: 512KiB); off",
            default: "off: every allocation",
            meaning: "record a tensor's stack once per this many allocated bytes on average, for recording \
                      that is always on. Totals, peaks and counters stay exact; bytes by line become estimates \
                      and are marked as estimates (docs/stacks.md)",
        },
        |options, value| {
            let every = value.to_str().and_then(bytes);
            let every = every.filter(|every| STACK_SAMPLES.contains(every));
            options.stack_sample = every.and_then(NonZeroU64::new);
            options.stack_sample.is_some() || value == "off"
        },
    ),
    (
        Described {
            name: "GPUMEM_BACKWARD",
            values: "on, off",
            default: "on; always off if GPUMEM_STACKS excludes Python stacks",
            meaning: "charge the allocations of PyTorch's backward to the lines of the forward, and record \
                      phases and steps of a training",
        },
        |options, value| {
            options.backward = value != "off";
            value == "on" || value == "off"
        },
    ),
    (
        Described {
            name: "GPUMEM_FREE_STACKS",
            values: "on, off",
            default: "off",
            meaning: "record a Python stack for each release too, so that `changes` shows its line. A release \
                      then costs as much as an allocation",
        },
        |options, value| {
            options.free_stacks = value == "on";
            value == "on" || value == "off"
        },
    ),
    (
        Described {
            name: "GPUMEM_QUIET",
            values: "1, 0",
            default: "0",
            meaning: "do not print the line that names the capture at exit",
        },
        |options, value| {
            options.quiet = value == "1";
            value == "1" || value == "0"
        },
    ),
    (
        Described {
            name: "GPUMEM_POSTMORTEM",
            values: "on, off",
            default: "on; off with GPUMEM_QUIET=1",
            meaning: "when an allocation fails because memory ran out, print the cause and the largest holders \
                      to stderr at once",
        },
        |options, value| {
            options.postmortem = Some(value == "on");
            value == "on" || value == "off"
        },
    ),
    (
        Described {
            name: "GPUMEM_HOLDERS",
            values: "on, off, or bytes, optionally with KiB, MiB or GiB",
            default: "on",
            meaning: "when PyTorch's allocator fails, find the Python objects that keep the largest blocks, in the \
                      failing thread and for at most a second of processor time: printed with the cause, and recorded. \
                      With bytes, also whenever a card's tensors have a new peak above them, in the main thread: recorded",
        },
        |options, value| {
            options.holders = value != "off";
            options.holders_above = value.to_str().and_then(bytes);
            value == "on" || value == "off" || options.holders_above.is_some()
        },
    ),
    (
        Described {
            name: "GPUMEM_WARN_AT",
            values: "1% to 100%; off",
            default: "off",
            meaning: "print one line to stderr when an NVML reading shows that this share of a card is in use, \
                      by all processes. The next warning can come after use has fallen 5 % below it",
        },
        |options, value| {
            let percent = value.to_str().and_then(|value| value.strip_suffix('%'));
            let percent = percent.and_then(|percent| percent.parse().ok());
            options.warn_at = percent.filter(|percent| (1..=100).contains(percent));
            options.warn_at.is_some() || value == "off"
        },
    ),
    (
        Described {
            name: "GPUMEM_RING",
            values: "auto, memfd, file, or the path of a folder in memory (tmpfs)",
            default: "auto: a file in /dev/shm, else in $XDG_RUNTIME_DIR, else memfd",
            meaning: "where events wait until they are written to the capture (docs/ring.md). After a kill, \
                      the same machine still has the events of a file. memfd: unnamed memory, where a kill \
                      loses up to 50 ms of events. file: the capture itself, where CUDA calls wait for its \
                      disk",
        },
        |options, value| {
            options.ring = match value.to_str() {
                Some("auto") => Ring::Memory,
                Some("memfd") => Ring::Memfd,
                Some("file") => Ring::File,
                _ if value.as_bytes().starts_with(b"/") => Ring::Folder(value.clone()),
                _ => return false,
            };
            true
        },
    ),
    (
        Described {
            name: "GPUMEM_RING_SLOTS",
            values: "slots of 64 bytes, 1024 to 16777216",
            default: "65536 (4 MiB)",
            meaning: "number of slots for events that are not compressed yet, rounded up to a power of two",
        },
        |options, value| match value.to_str().and_then(|text| text.parse::<u32>().ok()) {
            Some(slots) if (1024..=16_777_216).contains(&slots) => {
                options.ring_slots = slots;
                true
            }
            _ => false,
        },
    ),
    (
        Described {
            name: "GPUMEM_SAMPLE_MS",
            values: "milliseconds, 0 to 3600000; 0: only at peaks, failures and the end",
            default: "100",
            meaning: "interval of NVML readings of the card's memory. NVML is also read at each new peak, when \
                      memory runs out, and at the end",
        },
        |options, value| match value.to_str().and_then(|text| text.parse::<u64>().ok()) {
            Some(every @ 0..=3_600_000) => {
                options.sample_every = (every != 0).then(|| Duration::from_millis(every));
                true
            }
            _ => false,
        },
    ),
    (
        Described {
            name: "GPUMEM_BOUNDED",
            values: "bytes, optionally with KiB, MiB or GiB; at least 16MiB, and more with a larger ring",
            default: "none: the file grows",
            meaning: "fixed size of the capture, for runs of weeks. The capture keeps live blocks, the blocks \
                      at the peaks, totals and the newest events",
        },
        |options, value| {
            options.bounded = value.to_str().and_then(bytes);
            options.bounded.is_some_and(|bytes| bytes >= LEAST_BOUNDED)
        },
    ),
    (
        Described {
            name: "GPUMEM_LIMIT",
            values: "bytes, optionally with KiB, MiB, GiB, TiB (2^10 steps) or KB, MB, GB, TB (10^3 steps): \
                     for every device (8GiB), by CUDA's ordinals (0=8GiB,1=16GiB), or both (24GiB,1=16GiB); \
                     at least 1MiB",
            default: "none: the card's real size",
            meaning: "limit the memory of a card. Allocations that do not fit a card of this size fail with \
                      the driver's error, and the sizes that the program reads agree with the limit \
                      (docs/limit.md)",
        },
        // Stored separately: it applies from the first call on, also before there is a capture.
        |_, value| value.to_str().and_then(Spec::parse).is_some(),
    ),
    (
        Described {
            name: "GPUMEM_COORDS",
            values: "dp=1,tp=0,pp=3: up to 16 names of a-z, 0-9 and _, with numbers",
            default: "none",
            meaning: "position of this rank in each dimension of the job's parallelism (docs/ranks.md). \
                      `gpumem.coords` in the program overrides it",
        },
        |options, value| {
            options.coordinates = value.to_str().and_then(Coordinates::parse);
            options.coordinates.is_some()
        },
    ),
    (
        Described {
            name: "GPUMEM_CODE",
            values: "names of packages as they are imported, separated by commas: timm,mypackage.models",
            default: "none",
            meaning: "installed packages whose code is your code, so that their lines own memory \
                      (docs/commands/lines.md). It is recorded; GPUMEM_CODE of the analyzer and --code override it",
        },
        |options, value| {
            options.code = value.to_str().map(str::to_owned);
            options.code.is_some()
        },
    ),
    (
        Described {
            name: "GPUMEM_MODULES",
            values: "on, off",
            default: "on",
            meaning: "`gpumem run` lets a program that imports PyTorch report the names of its modules \
                      (docs/modules.md). It has no effect without `gpumem run`",
        },
        |_, value| value == "on" || value == "off",
    ),
    (
        Described {
            name: "GPUMEM_LIST",
            values: "the path of an existing file",
            default: "none",
            meaning: "file to which the full path of each capture, followed by a NUL, is appended when the \
                      capture begins. `gpumem run` uses it to find the captures",
        },
        |options, value| {
            options.list = Some(value.clone());
            !value.is_empty()
        },
    ),
    (
        Described {
            name: "GPUMEM_HOLDER",
            values: "the path of a Unix datagram socket",
            default: "none",
            meaning: "socket to which each capture's ring is passed when the capture begins: its descriptor \
                      (SCM_RIGHTS) and the capture's path. `gpumem run` keeps the descriptor open, so that a \
                      kill loses no events, wherever the ring is",
        },
        |options, value| {
            options.holder = Some(value.clone());
            !value.is_empty()
        },
    ),
];

/// The minimum size of a bounded capture.
const LEAST_BOUNDED: u64 = 16 << 20;

/// Limits of the distance of sampled stacks: below the smallest, sampling saves no cost; above the largest, no
/// line would be known.
const STACK_SAMPLES: core::ops::RangeInclusive<u64> = 4 << 10..=1 << 30;

/// A size: `64MiB`, `1 GiB`, `67108864`.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}
