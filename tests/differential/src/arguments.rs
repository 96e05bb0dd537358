//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::ledger::Level;

/// How the threads of a program call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Threads {
    /// One at a time, in an order that the seed gives.
    Turns,
    /// Really at once, between barriers.
    AtOnce,
    /// One seed in eight at once, the others in turns.
    Both,
}

/// Runs random CUDA programs on the simulator and compares gpumem's counters with its books.
#[derive(Clone, Debug, Parser)]
#[command(args_override_self = true)]
pub struct Arguments {
    /// Seed of the first sequence; the next one's is one more.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many sequences.
    #[arg(long, default_value_t = 1000)]
    pub sequences: u64,
    /// Processes that share the sequences, side by side.
    #[arg(long, default_value_t = 1)]
    pub processes: u64,
    /// How threads call.
    #[arg(long, value_enum, default_value_t = Threads::Both)]
    pub threads: Threads,
    /// The levels to compare.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "driver,host")]
    pub ledger: Vec<Level>,
    /// The families of calls to choose from (all).
    #[arg(long, value_delimiter = ',')]
    pub families: Vec<String>,
    /// Write every call with its result and what it gave to this file.
    #[arg(long)]
    pub transcript: Option<PathBuf>,
    /// Write the recorder's counters as they are at the end to this file, as JSON.
    #[arg(long)]
    pub counters: Option<PathBuf>,
    /// Compare nothing; libgpumem.so may be preloaded or not.
    #[arg(long)]
    pub alone: bool,
    /// Be the peer of another such process: an end of its sockets is where standard input would be.
    #[arg(long, hide = true)]
    pub peer: bool,
    /// Plant a fault: call this function past every hook.
    #[arg(long, value_delimiter = ',')]
    pub drop: Vec<String>,
    /// Never call these functions: to the program they are missing.
    #[arg(long, value_delimiter = ',')]
    pub without: Vec<String>,
}

impl Arguments {
    /// The options that run one sequence of these again.
    pub fn again(&self, seed: u64) -> String {
        let named = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
        let mut options = format!("differential --seed {seed} --sequences 1");
        let threads = match self.threads {
            Threads::Turns => "turns",
            Threads::AtOnce => "at-once",
            Threads::Both => "both",
        };
        options.push_str(&format!(" --threads {threads}"));
        let levels: Vec<String> = self.ledger.iter().map(|level| named(level)).collect();
        options.push_str(&format!(" --ledger {}", levels.join(",")));
        for (option, list) in [
            ("--families", &self.families),
            ("--drop", &self.drop),
            ("--without", &self.without),
        ] {
            if !list.is_empty() {
                options.push_str(&format!(" {option} {}", list.join(",")));
            }
        }
        options
    }
}
