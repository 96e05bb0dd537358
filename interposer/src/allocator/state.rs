//! A session's state of the allocator.

use super::block::Sites;
use super::placements::Placements;
use super::routes::Routes;
use super::traced::Trace;

/// The state of the allocator in a session.
#[derive(Default)]
pub(crate) struct Allocator {
    pub(super) sites: Sites,
    pub(super) placements: Placements,
    pub(super) routes: Routes,
    pub(super) trace: Trace,
}
