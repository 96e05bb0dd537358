//! The random differential test: random programs call the simulated driver, and gpumem's counters must
//! equal the simulator's books at every step.
//!
//! # Design constraints
//! - The seed alone determines a sequence; the seeds of a run are consecutive.
//! - The recorder is used only through its C interface, found with `dlsym`; without it, the same calls
//!   are made.
//! - Decisions never depend on an address, so a run with the recorder and one without make the same
//!   calls, and their transcripts must be equal.
//!
//! # Not suitable for
//! Real cards: the books are the simulator's.

mod arguments;
mod at_once;
mod calls;
mod cuda;
mod driver;
mod elf;
mod families;
mod functions;
mod ledger;
mod model;
mod names;
mod pass;
mod peer;
mod rng;
mod rows;
mod statistics;
mod turns;
mod world;

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use arguments::{Arguments, Threads};
use clap::Parser;
use cuda::Cuda;
use driver::{Driver, Reach};
use ledger::Ledger;
use model::DEVICES;
use world::{Families, World};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = if arguments.peer {
        peer::serve::run().map(|()| true)
    } else if arguments.processes > 1 {
        in_processes(&arguments)
    } else {
        run(&arguments)
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("differential: {error}");
            ExitCode::from(2)
        }
    }
}

/// Divides the seeds among processes, each with a separate run.
fn in_processes(arguments: &Arguments) -> Result<bool, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let share = arguments.sequences.div_ceil(arguments.processes);
    let mut children = Vec::new();
    for process in 0..arguments.processes {
        let first = process * share;
        let count = share.min(arguments.sequences.saturating_sub(first));
        // The last of a repeated option counts.
        let child = Command::new(&program)
            .args(std::env::args_os().skip(1))
            .arg(format!("--seed={}", arguments.seed + first))
            .arg(format!("--sequences={count}"))
            .arg("--processes=1")
            // Separate cards for the process and its peer, so that other processes do not change the
            // results of a seed.
            .env(peer::CARD, card_of(process))
            .spawn();
        children.push(child.map_err(|e| e.to_string())?);
    }
    let mut good = true;
    for (process, mut child) in children.into_iter().enumerate() {
        good &= child.wait().map_err(|e| e.to_string())?.success();
        let _ = std::fs::remove_file(card_of(process as u64));
    }
    Ok(good)
}

/// The file through which one of several processes and its peer share their cards.
fn card_of(process: u64) -> PathBuf {
    let name = format!("gpumem-differential.{}.{process}", std::process::id());
    std::env::temp_dir().join(name)
}

/// Memory of the program for registering: the slots of all threads.
fn arena() -> Result<u64, String> {
    let bytes = families::host::SLOT * families::host::SLOTS * (turns::THREADS + 2);
    // SAFETY: a new anonymous mapping at any address; no other memory is touched.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err("no memory".into());
    }
    Ok(start as u64)
}

fn chosen(names: &[String]) -> Result<Families, String> {
    let mut chosen = Vec::new();
    for name in names {
        let family = families::ALL.iter().find(|family| family.name == name);
        chosen.push(*family.ok_or_else(|| format!("there is no family {name}"))?);
    }
    let all = families::ALL;
    let chosen = if chosen.is_empty() {
        all
    } else {
        chosen.leak()
    };
    Ok(Families { chosen, all })
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let driver: &'static Driver = Box::leak(Box::new(Driver::load(&Reach {
        global: arguments.seed.is_multiple_of(2),
        dropped: arguments.drop.clone(),
        missing: arguments.without.clone(),
    })?));
    let families = chosen(&arguments.families)?;
    if families.chosen.iter().any(|family| family.name == "peer") {
        peer::start()?;
    }
    let mut cuda = Cuda::new(driver, arguments.seed);
    let mut count = 0;
    cuda.cuInit(0);
    cuda.cuDeviceGetCount(Some(&mut count));
    let devices = usize::try_from(count).unwrap_or(0).min(DEVICES);
    if devices == 0 {
        return Err("there is no device".into());
    }
    let levels = if arguments.alone {
        &[]
    } else {
        arguments.ledger.as_slice()
    };
    let mut ledger = Ledger::new(driver, levels, devices as i32);
    ledger.transients = families
        .chosen
        .iter()
        .any(|family| matches!(family.name, "graph" | "multicast"));
    if !ledger.has_recorder() && !arguments.alone {
        return Err("libgpumem.so is not preloaded (--alone runs without it)".into());
    }
    cuda.ledger = Some(ledger);
    let arena = arena()?;
    if let Some(path) = &arguments.transcript {
        let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
        cuda.write_down(file);
        let bytes = families::host::SLOT * families::host::SLOTS;
        cuda.sized(arena, bytes);
    }
    let world = World::new(cuda, devices, families, arena);
    let crew = turns::Crew::new(world);
    let common = at_once::Common {
        driver,
        families,
        devices,
    };
    let mut all = statistics::Statistics::default();
    for sequence in 0..arguments.sequences {
        let seed = arguments.seed + sequence;
        // A seed always runs in the same mode.
        let at_once = match arguments.threads {
            Threads::Turns => false,
            Threads::AtOnce => true,
            Threads::Both => seed % 8 == 7,
        };
        if at_once {
            all.add(&at_once::run(&mut crew.world(), &common, seed, sequence));
        } else {
            crew.run(seed, sequence);
        }
        if crew.world().cuda.failure.is_some() {
            break;
        }
    }
    peer::stop();
    let mut world = crew.world();
    world.cuda.flush().map_err(|e| e.to_string())?;
    all.add(&world.cuda.statistics);
    all.comparisons = world.cuda.ledger.as_ref().map_or(0, |l| l.comparisons);
    if let (Some(path), Some(ledger)) = (&arguments.counters, &world.cuda.ledger) {
        let written = std::fs::write(path, ledger.counters_json());
        written.map_err(|e| format!("{}: {e}", path.display()))?;
    }
    // In one piece: other processes print to the same pipe.
    let line = format!("STATISTICS {}\n", all.json());
    std::io::stdout()
        .write_all(line.as_bytes())
        .expect("standard output is open");
    let Some(failure) = &world.cuda.failure else {
        return Ok(true);
    };
    println!("DIFFERENCE {failure}");
    let seed = world.cuda.place.seed;
    println!("again, alone: {}", arguments.again(seed));
    Ok(false)
}
