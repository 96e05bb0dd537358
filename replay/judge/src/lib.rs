//! Why an allocation failed: facts, rules, a verdict, words. The only judge.
//!
//! [`Follow`] observes a capture's records next to the replay, and takes the [`Facts`] at the failure. [`judge`] goes
//! through the rules and returns the first that holds as a [`Verdict`]. [`words`] has its sentences. [`Growth`] says
//! whether memory grows from round to round, for failures and for runs without one.
//!
//! # Design constraints
//! - A fact is exact as far as the capture goes, and has no text.
//! - A rule reads facts only. A verdict says how it is known.
//! - If no rule holds, there is no advice.
//!
//! This crate reads no file and calls no driver. Start reading with `rules.rs`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// An enumeration whose values have a name in captures and in output for programs.
macro_rules! kinds {
    ($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $kind:ident = $text:literal,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$doc])* $kind,)* }

        impl $name {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its name in captures and in output for programs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $text,)* }
            }
        }
    };
}
mod cache;
mod facts;
mod follow;
mod growth;
mod history;
mod holders;
mod kept;
mod path;
mod replays;
mod round_clock;
mod rounds;
mod rules;
mod verdict;
pub mod words;

pub use cache::{Cache, Free};
pub use facts::{Alike, Copied, Facts, Larger, Longer, Most, New, Outside, Part, Request};
pub use follow::{Card, Follow, StepPeaks};
pub use growth::{Ends, Growth, KeptEach};
pub use holders::{Holder, HolderKind, Holders};
pub use kept::{Kept, KeptLine};
pub use replays::{Replays, Setting};
pub use round_clock::{LoopRounds, RoundClock, RoundOf};
pub use rules::judge;
pub use verdict::{Certainty, Kind, Verdict};
