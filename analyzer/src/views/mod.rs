//! Results that are computed from a session, before they become text, JSON or pictures.

mod annotated;
mod block_events;
mod by_module;
mod by_stack;
mod calls;
mod categories;
mod cause;
mod changes;
pub mod ci;
mod diff;
mod diff_holders;
mod diff_pools;
mod flame;
mod fragmentation;
mod greatest;
mod hints;
mod json;
mod last_round;
mod leaks;
mod ledger;
mod lines;
mod module_of;
mod moments;
mod page;
mod past_blocks;
mod pytorch;
mod report;
mod scopes;
mod sizes;
mod split;
mod summary;
mod survivors;
mod tally;
mod temporary;
mod thread_stacks;
mod threads;
mod timeline;
mod tree;
mod when;

pub use gpumem_judge::RoundClock;

pub use annotated::{Annotated, FileUse, LineUse};
pub use block_events::BlockEvents;
pub use by_module::{ModuleRow, modules};
pub use by_stack::{ByStack, DeviceStacks, Owners, Select, level_or_default};
pub use calls::{BucketSummary, Calls, TimesSummary};
pub use categories::{CategoryBytes, CategoryRow, by_category, categories};
pub use cause::{
    Cause, CauseKind, CauseWatch, Certainty, Holder, Holders, LineOwner, NotReplays, PeakHolders,
    ReplaysOfRun, holder_name,
};
pub use changes::{Change, Changes, Group};
pub use diff::{Diff, DiffRow, MatchKey, Of};
pub use diff_holders::{HolderRow, HoldersDiff, KeptAt};
pub use diff_pools::{FigureDiff, PoolDiff};
pub use flame::{
    Differential, FlameFrame, FlameHeld, FlameStack, Folded, Folding, FrameBy, SharedFrame,
};
pub use fragmentation::{
    FragmentedAt, FragmentedSegment, PoolFigures, PoolMoment, PoolTime, ReservedOverTime,
};
pub use greatest::Greatest;
pub use hints::{Evidence, Hint, HintKind, HintWatch, Hints};
pub(crate) use json::ordinal;
pub use last_round::{LastRound, LeaksThen, last_round};
pub use leaks::{Class, LEAST_STEPS, LeakHolder, LeakRow, Leaks, WARM_UP_STEPS};
pub use ledger::{
    Asked, By, JumpRow, Kind, Ledger, LedgerAt, LedgerRow, LedgerWatch, Place, Pool, PoolLine,
    ReadingRow, Segment, SegmentLine, Workspaces,
};
pub use lines::{LinePart, LineRow, Lines};
pub use moments::{DeviceThen, LevelThen, MOMENT_LEVELS, MomentKind, Moments};
pub use page::{
    Page, PageAnswer, PageBand, PageCause, PageChart, PageDevice, PageEvidence, PageFailure,
    PageHead, PageHeld, PageHint, PageHistory, PageHolders, PageLane, PageLeak, PageLeaks,
    PageLedgerRow, PageLevel, PageLimits, PageLine, PageModule, PageMoment, PageOwner, PagePart,
    PagePeak, PagePool, PageSections, PageSegment, PageSegmentLine, PageSources, PageSpans,
    PageStacks,
};
pub use past_blocks::{
    DetailRange, FollowBlocks, PastBlock, PastBlocks, PastLevel, PastSpan, PastSpans, Placed,
    Placement, Room, SpanKind,
};
pub use report::{ChangeReport, PeakReport, Report, lines_at_peak};
pub use scopes::{MarkRow, ScopeFigures, ScopeName, ScopeRow, ScopeWatch, Scopes};
pub use sizes::{Histogram, SizeRow, SizesOn};
pub use split::{LineSplit, SplitLine, SplitModule};

pub use summary::{
    CategorySummary, ContextSummary, DeviceSummary, LevelSummary, PeakSummary, PhysicalSummary,
    ProcessSummary, ReservedSummary, Summary,
};
pub use survivors::{AskedLeaks, Survivors};
pub use temporary::{ShortLived, Temporary, TemporaryRow, Within};
pub use thread_stacks::ThreadStacks;
pub use threads::{ThreadRow, ThreadWatch, ThreadsOn};
pub use timeline::{
    Band, BandKind, CourseBucket, DeviceTimeline, Lane, LaneKind, LaneSpan, LevelPeak, Moment,
    Stretch, TimeAxis, Timeline, TimelineBucket, TimelineBuilder, TimelineFailure, TimelinePoint,
    TimelineRetries,
};
pub use tree::Node;
pub use when::{at, at_round, when};
