//! The comparison: the recorder's counters and the simulator's books, device by device.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;

use crate::driver::Driver;

/// A level at which both sides count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Level {
    /// Requested bytes on a device.
    Driver,
    /// Pinned host memory.
    Host,
    /// Bytes that the card allocated, without managed memory's residency, which only the driver knows. Also without
    /// memory that this process has released while another process has it open: the recorder counts it as released, so
    /// it is unexplained if NVML counts it for this process.
    /// Compared where the program synchronises, after the card was read, because only readings show what contexts and
    /// modules take. While managed memory is live, which may hide contexts and modules, the recorder's figure may lack
    /// them. After memory has lingered for another process, the figures may differ by the most that has lingered.
    Physical,
    /// The same without contexts and modules, which are measured and have no records.
    Pages,
}

impl Level {
    /// Its number in the recorder's interface.
    fn number(self) -> c_int {
        match self {
            Self::Driver => 1,
            Self::Host => 2,
            Self::Physical | Self::Pages => 3,
        }
    }
}

/// Bytes now, and the peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    now: u64,
    peak: Option<u64>,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Counters {
    live_bytes: u64,
    peak_bytes: u64,
    allocations: u64,
    frees: u64,
}

type BooksOf = unsafe extern "C" fn(c_int, *const c_char, *mut u64, *mut u64) -> c_int;
type ReadCard = unsafe extern "C" fn(c_int) -> c_int;
type CountersOf = unsafe extern "C" fn(c_int, c_int, *mut Counters) -> c_int;

/// The one comparison of peaks that may fail for a valid reason.
const AT_MOST: &str = "peak, at most the books'";

/// The recorder's device number for memory that belongs to no device.
const NO_DEVICE: c_int = 255;

/// Where the two sides differ.
#[derive(Clone, Debug)]
pub struct Difference {
    level: Level,
    device: c_int,
    what: &'static str,
    recorder: u64,
    books: u64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "device {}, {:?} level, {}: the recorder says {}, the books {}",
            self.device, self.level, self.what, self.recorder, self.books
        )
    }
}

/// One level of one device, over the run.
#[derive(Clone, Copy, Debug)]
struct Line {
    level: Level,
    device: c_int,
    /// The most bytes at any comparison.
    largest: u64,
    /// The most that other processes kept of memory that this one had released.
    lingered: u64,
    /// The recorder's peak must be this or what was seen since: where threads called at once, it may be below the
    /// books' peak.
    from: u64,
    /// Whether the two sides' peaks must be equal: threads have called only in turns.
    strict: bool,
}

/// Both sides' figures, and the peaks at comparisons.
#[derive(Clone)]
pub struct Ledger {
    books: BooksOf,
    counters: Option<CountersOf>,
    read_card: Option<ReadCard>,
    devices: c_int,
    lines: Vec<Line>,
    /// Whether single calls allocate and free (a graph's launch), or free memory whose size is known only afterwards
    /// (the end of a multicast object). Where threads call at once, the recorder may see another order of these than
    /// the driver, and a higher peak.
    pub transients: bool,
    /// Points compared so far.
    pub comparisons: u64,
}

impl Ledger {
    /// Compares these levels of the devices.
    pub fn new(driver: &Driver, levels: &[Level], devices: c_int) -> Self {
        // SAFETY: the simulator's function of this name, whose type this is.
        let books = unsafe { core::mem::transmute::<usize, BooksOf>(driver.books) };
        let counters = (driver.counters != 0).then(|| {
            // SAFETY: the recorder's function of this name, whose type this is.
            unsafe { core::mem::transmute::<usize, CountersOf>(driver.counters) }
        });
        let read_card = (driver.read_card != 0).then(|| {
            // SAFETY: as above.
            unsafe { core::mem::transmute::<usize, ReadCard>(driver.read_card) }
        });
        let line = |level, device| Line {
            level,
            device,
            largest: 0,
            lingered: 0,
            from: 0,
            strict: true,
        };
        let lines = levels
            .iter()
            .flat_map(|level| (0..devices).map(move |device| line(*level, device)))
            .collect();
        Self {
            books,
            counters,
            read_card,
            devices,
            lines,
            transients: false,
            comparisons: 0,
        }
    }

    /// Whether there is a recorder to compare with.
    pub fn has_recorder(&self) -> bool {
        self.counters.is_some()
    }

    /// Compares after a call while no other call runs: all figures must agree. `synchronised`: the call waits for the
    /// device.
    pub fn compare(&mut self, synchronised: bool) -> Option<Difference> {
        self.compare_all(true, synchronised)
    }

    /// Compares where all threads wait, after they called at once. Live bytes must agree. The recorder's peak may be
    /// below the books' peak, but not above it and not below what was seen.
    pub fn compare_at_barrier(&mut self) -> Option<Difference> {
        let found = self.compare_all(false, true);
        for line in &mut self.lines {
            line.strict = false;
        }
        found
    }

    /// Uses the current peaks as the starting point for later comparisons.
    pub fn rebase(&mut self) {
        let Some(counters) = self.counters else {
            return;
        };
        for line in &mut self.lines {
            line.from = read(counters, line.device, line.level).peak.unwrap_or(0);
        }
    }

    /// Memory that is live in the books although all should be freed.
    pub fn left_over(&self) -> Option<String> {
        let kinds: [&CStr; 3] = [c"driver", c"host", c"registered"];
        (0..self.devices).find_map(|device| {
            let lives =
                |kind: &&&CStr| figures(self.books, device, kind).is_some_and(|f| f.now > 0);
            let kind = kinds.iter().find(lives)?.to_string_lossy();
            Some(format!("device {device} still holds {kind} memory"))
        })
    }

    /// The recorder's counters as JSON: live bytes, peak, allocations and frees by device and level.
    pub fn counters_json(&self) -> String {
        let level = |device, level: Level| {
            let mut values = Counters::default();
            if let Some(counters) = self.counters {
                // SAFETY: a place of the size that the function writes, alive for the call.
                unsafe { counters(device, level.number(), &mut values) };
            }
            let Counters {
                live_bytes,
                peak_bytes,
                allocations,
                frees,
            } = values;
            format!("[{live_bytes},{peak_bytes},{allocations},{frees}]")
        };
        let rows: Vec<String> = (0..self.devices)
            .map(|device| {
                let (driver, host) = (level(device, Level::Driver), level(device, Level::Host));
                format!("{{\"device\":{device},\"driver\":{driver},\"host\":{host}}}")
            })
            .collect();
        format!("[{}]", rows.join(","))
    }

    fn compare_all(&mut self, in_turns: bool, synchronised: bool) -> Option<Difference> {
        if self.lines.is_empty() {
            return None;
        }
        let counters = self.counters?;
        self.comparisons += 1;
        let is_physical = |line: &Line| line.level == Level::Physical;
        // Read before the card, because another process may release memory at any moment.
        let lingered: Vec<u64> = (0..self.devices)
            .map(|device| lingering(self.books, device))
            .collect();
        if synchronised && self.lines.iter().any(is_physical) {
            // SAFETY: the function takes a number and accesses no memory of this program.
            let _ = self.read_card.map(|read_card| unsafe { read_card(-1) });
        }
        let mut lines = std::mem::take(&mut self.lines);
        for line in &mut lines {
            let now = lingered.get(line.device as usize).copied().unwrap_or(0);
            line.lingered = line.lingered.max(now);
        }
        let compared = |line: &&mut Line| synchronised || line.level != Level::Physical;
        let found = lines.iter_mut().filter(compared).find_map(|line| {
            let exact = !self.transients || (in_turns && line.strict);
            compare_line(self.books, counters, line, in_turns)
                .filter(|found| exact || found.what != AT_MOST)
        });
        self.lines = lines;
        found
    }
}

fn compare_line(
    books: BooksOf,
    counters: CountersOf,
    line: &mut Line,
    in_turns: bool,
) -> Option<Difference> {
    let Line { level, device, .. } = *line;
    let theirs = by_the_books(books, device, level);
    let mut ours = read(counters, device, level);
    let mut elsewhere = None;
    if level == Level::Host && device == 0 {
        // Host memory of no device: the books count it under the first device.
        let other = read(counters, NO_DEVICE, level);
        if other != Figures::default() {
            ours.now += other.now;
            elsewhere = other.peak;
        }
    }
    let difference = |what, recorder, books| {
        Some(Difference {
            level,
            device,
            what,
            recorder,
            books,
        })
    };
    let (less, more) = untold(books, line, in_turns);
    if ours.now > theirs.now.saturating_add(more) || ours.now < theirs.now.saturating_sub(less) {
        return difference("live bytes", ours.now, theirs.now);
    }
    line.largest = line.largest.max(ours.now);
    let peak = ours.peak.unwrap_or(0);
    if let Some(elsewhere) = elsewhere.filter(|peak| *peak > 0) {
        // Two counters; there is no peak of their sum.
        let sum = peak + elsewhere;
        let too_low = sum < line.largest;
        return too_low.then(|| difference("peak at most", sum, line.largest))?;
    }
    if in_turns {
        let seen = line.largest.max(line.from);
        if line.strict && theirs.peak.is_some_and(|theirs| theirs != peak) {
            return difference("peak", peak, theirs.peak.unwrap_or(0));
        }
        // Inside one call there may be more live memory than after it (a graph's launch). Where the books have no peak
        // for it, no such call is made.
        let sees_all = level != Level::Physical;
        let known = sees_all && theirs.peak.is_none() && (line.strict || line.from > 0);
        if peak < seen || (known && peak != seen) {
            return difference("peak, of what was seen", peak, seen);
        }
    } else if peak < line.largest {
        return difference("peak, at least what was seen", peak, line.largest);
    }
    // Memory that pools released for another thread's block may be noticed after that block.
    let told_in_order = in_turns || level != Level::Physical;
    if let Some(theirs) = theirs.peak.filter(|theirs| *theirs < peak && told_in_order) {
        return difference(AT_MOST, peak, theirs);
    }
    None
}

/// By how much the recorder's figure may be below and above the books'.
fn untold(books: BooksOf, line: &Line, in_turns: bool) -> (u64, u64) {
    let now = |kind| figures(books, line.device, kind).map_or(0, |figures| figures.now);
    // The size of a pool that ends while another thread allocates from it is measured, too.
    let of_pools = match in_turns {
        true => 0,
        false => now(c"destroyed_pools"),
    };
    // Managed memory on the card hides what is measured.
    let hidden = match now(c"managed") {
        0 => 0,
        _ => now(c"context") + now(c"module") + of_pools,
    };
    match line.level {
        // The recorder does not know the additional memory that the first managed memory on the card takes.
        Level::Physical => (hidden + now(c"touched") + line.lingered, line.lingered),
        _ => (0, 0),
    }
}

/// Memory of a device that this process has released and other processes keep.
fn lingering(books: BooksOf, device: c_int) -> u64 {
    figures(books, device, c"lingering").map_or(0, |figures| figures.now)
}

fn figures(books: BooksOf, device: c_int, kind: &CStr) -> Option<Figures> {
    let (mut now, mut peak) = (0, 0);
    // SAFETY: a C string and two places, alive for the call.
    let code = unsafe { books(device, kind.as_ptr(), &mut now, &mut peak) };
    (code == 0).then_some(Figures {
        now,
        peak: Some(peak),
    })
}

fn by_the_books(books: BooksOf, device: c_int, level: Level) -> Figures {
    let figure = |kind| figures(books, device, kind);
    let now = |kind| figure(kind).map_or(0, |figures| figures.now);
    match level {
        Level::Driver => figure(c"driver").unwrap_or_default(),
        Level::Host => figure(c"pinned").unwrap_or_else(|| Figures {
            now: now(c"host") + now(c"registered"),
            peak: None,
        }),
        Level::Physical | Level::Pages => {
            let all = figure(c"physical").unwrap_or_default();
            let mut less = now(c"resident") + now(c"lingering");
            if level == Level::Pages {
                less += now(c"context") + now(c"module") + now(c"touched");
            }
            // The peak of a difference is not the difference of peaks.
            let never = |kind| figure(kind).is_none_or(|figures| figures.peak == Some(0));
            let measured = [c"resident", c"touched", c"lingering", c"context", c"module"];
            let whole = level == Level::Physical && measured.into_iter().all(never);
            Figures {
                now: all.now.saturating_sub(less),
                peak: all.peak.filter(|_| whole),
            }
        }
    }
}

fn read(counters: CountersOf, device: c_int, level: Level) -> Figures {
    let mut values = Counters::default();
    // SAFETY: a variable of the size that the function writes, alive for the call. Before the first record the
    // function writes nothing, and the counters are 0.
    unsafe { counters(device, level.number(), &mut values) };
    Figures {
        now: values.live_bytes,
        peak: Some(values.peak_bytes),
    }
}
