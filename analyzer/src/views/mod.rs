//! What is worked out from a session, before it becomes text, JSON or a picture.

mod annotated;
mod changes;
mod diff;
mod flame;
mod held;
mod ledger;
mod lines;
mod moments;
mod page;
mod summary;
mod timeline;
mod tree;

pub use annotated::{Annotated, FileUse, LineUse};
pub use changes::{Change, Changes, Greatest, Group};
pub use diff::{Alike, Diff, DiffRow, Of};
pub use flame::Folded;
pub use held::{Held, HeldOn, Owners, Select};
pub use ledger::{
    Asked, By, JumpRow, Kind, Ledger, LedgerAt, LedgerRow, Place, Pool, PoolLine, ReadingRow,
    Segment, SegmentLine, Workspaces,
};
pub use lines::{LineRow, Lines};
pub use moments::{DeviceThen, LevelThen, MOMENT_LEVELS, MomentKind, Moments};
pub use page::{
    Page, PageBand, PageChart, PageCourse, PageDevice, PageFailure, PageHead, PageLedgerRow,
    PageLevel, PageLimits, PageMoment, PageOwner, PagePool, PageSegment, PageSegmentLine,
    PageSources, PageStacks,
};
pub use summary::{
    Calls, ContextSummary, DeviceSummary, LevelSummary, PeakSummary, PhysicalSummary,
    ReservedSummary, Summary,
};
pub use timeline::{
    Band, BandKind, CourseBucket, DeviceTimeline, LevelPeak, Timeline, TimelineBucket,
    TimelineFailure, TimelinePoint, TimelineRecorder,
};
pub use tree::Node;
