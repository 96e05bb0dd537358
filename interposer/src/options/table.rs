//! Every environment option: how it is described, and how a value of it is taken.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use gpumem_capture::Coordinates;
use gpumem_stacks::Stacks;

use super::values::{Options, Ring};
use crate::limit::spec::Spec;

/// One option as the help prints it.
pub(crate) struct Described {
    pub(crate) name: &'static str,
    pub(crate) values: &'static str,
    pub(crate) default: &'static str,
    pub(crate) meaning: &'static str,
}

/// One row of the table: how it is described and how a value is taken; false if the value is not one.
type Row = (Described, fn(&mut Options, &OsString) -> bool);

/// All options.
pub(super) static TABLE: &[Row] = &[
    (
        Described {
            name: "GPUMEM_OUTPUT",
            values: "a path; %p is the process id, %r the rank, %h the host's name",
            default: "report.bin, or report.rank<N>.bin under a launcher",
            meaning: "where the capture goes; an earlier one is never overwritten: the next free \
                      name is taken (report-2.bin)",
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
            meaning: "which stacks each event carries",
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
            values: "bytes, with KiB, MiB or GiB if wanted, 4KiB to 1GiB (512KiB suits most); off",
            default: "off: every allocation",
            meaning: "tensors carry stacks once in so many allocated bytes on average, for recording that is always on: \
                      totals, peaks and counters stay exact, bytes by line become estimates and are marked as such \
                      (docs/stacks.md)",
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
            default: "on; always off where GPUMEM_STACKS leaves Python stacks out",
            meaning: "whether what PyTorch's backward allocates is charged to the forward lines, and \
                      phases and steps of a training are recorded",
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
            meaning: "whether releases carry a Python stack too, so that `changes` knows the line of each; \
                      as dear as that of an allocation",
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
            meaning: "leaves out the line that names the capture at exit",
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
            meaning: "whether an allocation that fails for want of memory is told of on stderr at once: the \
                      cause, and who holds what",
        },
        |options, value| {
            options.postmortem = Some(value == "on");
            value == "on" || value == "off"
        },
    ),
    (
        Described {
            name: "GPUMEM_WARN_AT",
            values: "1% to 100%; off",
            default: "off",
            meaning: "says on stderr when a reading of NVML finds that much of a card in use, by whomever: once, until 5 % \
                      less than that are in use again",
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
            default: "auto: a file in /dev/shm, or in $XDG_RUNTIME_DIR; where neither is to be had, as memfd",
            meaning: "where events wait to be written to the capture (docs/ring.md). After a kill they are found there on \
                      the same machine. memfd: in memory without a name, where a kill loses up to 50 ms of them; file: \
                      in the capture itself, where calls wait for its disk",
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
            meaning: "room for events that are not compressed yet; rounded up to a power of two",
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
            values: "milliseconds, 0 to 3600000; 0: only when something happens",
            default: "100",
            meaning: "how often NVML is asked what the card itself says; it is also asked at each new \
                      peak, when memory runs out, and at the end",
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
            values: "bytes, with KiB, MiB or GiB if wanted; at least 16MiB, and more with a larger ring",
            default: "none: the file grows",
            meaning: "the size that the capture has from its first moment to its last: for runs of weeks. It \
                      keeps what is live, what was at the peaks, totals, and the newest events",
        },
        |options, value| {
            options.bounded = value.to_str().and_then(bytes);
            options.bounded.is_some_and(|bytes| bytes >= LEAST_BOUNDED)
        },
    ),
    (
        Described {
            name: "GPUMEM_LIMIT",
            values: "bytes, with KiB, MiB, GiB, TiB (2^10 steps) or KB, MB, GB, TB (10^3 steps) if wanted: of \
                     every device (8GiB), of devices by CUDA's ordinals (0=8GiB,1=16GiB), or both \
                     (24GiB,1=16GiB); at least 1MiB",
            default: "none: cards are as large as they are",
            meaning: "makes a card look smaller: allocations that such a card would not have fail as the \
                      driver's, and what the program is told of the card agrees (docs/limit.md)",
        },
        // Kept by itself: it holds from the first call on, also before there is a capture.
        |_, value| value.to_str().and_then(Spec::parse).is_some(),
    ),
    (
        Described {
            name: "GPUMEM_COORDS",
            values: "dp=1,tp=0,pp=3: up to 16 names of a-z, 0-9 and _, with numbers",
            default: "none",
            meaning: "where this rank stands in each dimension of the job's parallelism (docs/ranks.md). What the program \
                      gives by `gpumem.coords` takes its place",
        },
        |options, value| {
            options.coordinates = value.to_str().and_then(Coordinates::parse);
            options.coordinates.is_some()
        },
    ),
    (
        Described {
            name: "GPUMEM_LIST",
            values: "the path of a file that is there",
            default: "none",
            meaning: "a file to which each capture's whole path, with a NUL at its end, is added when the \
                      capture begins. `gpumem run` learns from it what was written",
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
            meaning: "a socket to which each capture's ring is passed when the capture begins: its descriptor \
                      (SCM_RIGHTS) and the capture's path. `gpumem run` holds it open, so that a kill loses nothing of \
                      it, wherever it lies",
        },
        |options, value| {
            options.holder = Some(value.clone());
            !value.is_empty()
        },
    ),
];

/// The smallest bounded capture that is worth its name.
const LEAST_BOUNDED: u64 = 16 << 20;

/// Distances of sampled stacks: nearer than the smallest no cost is saved; further apart no line would be known.
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
