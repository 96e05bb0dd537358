//! The caller of the driver: chooses the address for each call and records the result.

use std::fs::File;
use std::io::{BufWriter, Write};

use crate::driver::Driver;
use crate::functions::{Api, NOT_SUPPORTED, name_of};
use crate::ledger::Ledger;
use crate::names::Names;
use crate::rng::Rng;
use crate::statistics::Statistics;

/// The driver's result code for out of memory.
pub const OUT_OF_MEMORY: u32 = 2;

/// Where in the run a call is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// The sequence's seed.
    pub seed: u64,
    /// The sequence's number in this process.
    pub sequence: u64,
    /// The step in the sequence.
    pub step: usize,
    /// The thread that calls.
    pub thread: usize,
}

/// A caller.
pub struct Cuda {
    driver: &'static Driver,
    ways: Rng,
    /// Counts of calls and results.
    pub statistics: Statistics,
    /// Names of addresses, for the transcript.
    pub names: Names,
    transcript: Option<BufWriter<File>>,
    /// The comparison after each call; `None` where threads call at once.
    pub ledger: Option<Ledger>,
    /// Where the run is.
    pub place: Place,
    /// The last call and its result.
    last: Option<(Api, u32)>,
    /// The description of the first difference.
    pub failure: Option<String>,
}

impl Cuda {
    /// Creates a caller; `seed` chooses the address of each call.
    pub fn new(driver: &'static Driver, seed: u64) -> Self {
        Self {
            driver,
            ways: Rng::new(seed ^ 0x77a7),
            statistics: Statistics::default(),
            names: Names::default(),
            transcript: None,
            ledger: None,
            place: Place::default(),
            last: None,
            failure: None,
        }
    }

    /// Begins a sequence; its seed chooses the addresses from now on.
    pub fn begin(&mut self, seed: u64, sequence: u64) {
        self.ways = Rng::new(seed ^ 0x77a7);
        self.place = Place {
            seed,
            sequence,
            ..Place::default()
        };
    }

    /// Writes every call to `transcript` from now on.
    pub fn write_down(&mut self, transcript: File) {
        self.transcript = Some(BufWriter::new(transcript));
    }

    /// Flushes the transcript.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.transcript.as_mut().map_or(Ok(()), BufWriter::flush)
    }

    /// The address for the next call of a function; 0 if the driver does not have it.
    pub(crate) fn address(&mut self, api: Api) -> usize {
        let ways = self.driver.ways.get(api as usize);
        ways.and_then(|ways| self.ways.pick(ways)).unwrap_or(0)
    }

    /// Counts a call of a function that the driver does not have.
    pub(crate) fn absent(&mut self, api: Api) -> u32 {
        self.statistics.called(api, NOT_SUPPORTED);
        NOT_SUPPORTED
    }

    /// Whether there is a transcript.
    pub(crate) fn is_told(&self) -> bool {
        self.transcript.is_some()
    }

    /// Writes a call to the transcript.
    pub(crate) fn tell(&mut self, api: Api, arguments: &str, code: u32) {
        let Place {
            sequence,
            step,
            thread,
            ..
        } = self.place;
        if let Some(out) = &mut self.transcript {
            let name = name_of(api);
            let arguments = arguments.trim_end_matches(", ");
            let _ = writeln!(
                out,
                "{sequence}.{step} thread {thread} {name}({arguments}) = {code}"
            );
        }
    }

    /// Counts a call that has returned, and compares the two sides.
    pub(crate) fn returned(&mut self, api: Api, code: u32) -> u32 {
        self.statistics.called(api, code);
        self.last = Some((api, code));
        if self.failure.is_none()
            && let Some(ledger) = &mut self.ledger
            && let Some(difference) = ledger.compare(code == 0 && synchronises(name_of(api)))
        {
            self.fail(&format!("after {} = {code}: {difference}", name_of(api)));
        }
        code
    }

    /// Memory that is live in the books although all should be freed.
    pub fn left_over(&self) -> Option<String> {
        self.ledger.as_ref().and_then(Ledger::left_over)
    }

    /// Counts a failure of the last call, which was valid according to the model.
    pub fn surprised(&mut self) {
        let Place { seed, step, .. } = self.place;
        if let Some((api, code)) = self.last {
            let told = || format!("{} = {code}, seed {seed}, step {step}", name_of(api));
            self.statistics.surprised(told);
        }
    }

    /// Reports a difference, with its place in the run.
    pub fn fail(&mut self, difference: &str) {
        let Place {
            seed,
            sequence,
            step,
            thread,
        } = self.place;
        let what =
            format!("seed {seed}, sequence {sequence}, step {step}, thread {thread}, {difference}");
        self.failure.get_or_insert(what);
    }

    /// Stores the size of a new block, for its name.
    pub fn sized(&mut self, address: u64, bytes: usize) {
        if self.is_told() {
            self.names.sized(address, bytes as u64);
        }
    }
}

/// Whether a function waits for the device.
fn synchronises(name: &str) -> bool {
    [
        "cuCtxSynchronize",
        "cuStreamSynchronize",
        "cuEventSynchronize",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}
