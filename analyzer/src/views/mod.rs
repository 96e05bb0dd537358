//! What is worked out from a session, before it becomes text, JSON or a picture.

mod changes;
mod flame;
mod ledger;
mod lines;
mod summary;
mod tree;

pub use changes::{Change, Changes, Greatest, Group};
pub use flame::Folded;
pub use ledger::{Ledger, LedgerRow};
pub use lines::{LineRow, Lines};
pub use summary::{DeviceSummary, LevelSummary, PhysicalSummary, ReservedSummary, Summary};
pub use tree::Node;
