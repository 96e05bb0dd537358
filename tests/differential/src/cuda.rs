//! A caller of the driver: by which way each call goes, and what is noted of it.

use std::fs::File;
use std::io::{BufWriter, Write};

use crate::driver::Driver;
use crate::functions::{Api, NOT_SUPPORTED, name_of};
use crate::ledger::Ledger;
use crate::names::Names;
use crate::rng::Rng;
use crate::statistics::Statistics;

/// What the driver answers when memory is short.
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
    /// What was called and how it ended.
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
    /// The first difference, told.
    pub failure: Option<String>,
}

impl Cuda {
    /// A caller by the ways that `seed` chooses.
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

    /// Begins a sequence: its seed chooses the ways from here on.
    pub fn begin(&mut self, seed: u64, sequence: u64) {
        self.ways = Rng::new(seed ^ 0x77a7);
        self.place = Place {
            seed,
            sequence,
            ..Place::default()
        };
    }

    /// Writes every call down from here on.
    pub fn write_down(&mut self, transcript: File) {
        self.transcript = Some(BufWriter::new(transcript));
    }

    /// Ends the transcript.
    ///
    /// # Errors
    /// What the file system says.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.transcript.as_mut().map_or(Ok(()), BufWriter::flush)
    }

    /// The address to call a function by this time; 0 if the driver has none.
    pub(crate) fn address(&mut self, api: Api) -> usize {
        let ways = self.driver.ways.get(api as usize);
        ways.and_then(|ways| self.ways.pick(ways)).unwrap_or(0)
    }

    /// The driver has no such function.
    pub(crate) fn absent(&mut self, api: Api) -> u32 {
        self.statistics.called(api, NOT_SUPPORTED);
        NOT_SUPPORTED
    }

    /// Whether calls are written down.
    pub(crate) fn is_told(&self) -> bool {
        self.transcript.is_some()
    }

    /// Writes a call down.
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

    /// A call has returned: counts it and compares the two sides.
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

    /// What still lives by the books, when nothing should.
    pub fn left_over(&self) -> Option<String> {
        self.ledger.as_ref().and_then(Ledger::left_over)
    }

    /// The last call failed, and the model held it for valid.
    pub fn surprised(&mut self) {
        let Place { seed, step, .. } = self.place;
        if let Some((api, code)) = self.last {
            let told = || format!("{} = {code}, seed {seed}, step {step}", name_of(api));
            self.statistics.surprised(told);
        }
    }

    /// Tells a difference, with its place in the run.
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

    /// Says how large a new block is, for its name.
    pub fn sized(&mut self, address: u64, bytes: usize) {
        if self.is_told() {
            self.names.sized(address, bytes as u64);
        }
    }
}

/// Whether a call of that name waits for the device.
fn synchronises(name: &str) -> bool {
    [
        "cuCtxSynchronize",
        "cuStreamSynchronize",
        "cuEventSynchronize",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}
