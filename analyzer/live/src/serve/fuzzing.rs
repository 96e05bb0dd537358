//! For the fuzz target of requests (fuzz/) and the test that runs it on its seeds.

use crate::frames::Ask;
use gpumem_http::Request;

use super::moments::wish;
use super::view::{FILTER, View};

/// Reads the query of a request as the requests for events and for a moment do.
///
/// # Panics
/// If a filter is longer than its limit, or a client's name is not one.
pub fn judge_query(request: &Request) {
    if let Ok(view) = View::of(request, Ask::default()) {
        assert!(view.filter.chars().count() <= FILTER);
    }
    if let Some((name, wish)) = wish(request, Ask::default(), 0) {
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()));
        assert!(wish.view.filter.chars().count() <= FILTER);
    }
}
