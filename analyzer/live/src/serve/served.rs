//! A capture that is served.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::frames::{Ask, Watch};
use gpumem_capture::OpenError;
use gpumem_http::{Request, Response};

use super::hub::Hub;
use super::moments::Moments;
use super::page::page;
use super::pump::Pump;
use super::view::View;

/// The interval of reading the capture.
const EVERY: Duration = Duration::from_millis(100);
const EVENTS: &str = "text/event-stream";

/// A capture that is followed for its readers.
pub(super) struct Served {
    watch: Arc<Watch>,
    hub: Arc<Hub>,
    _pump: Pump,
}

impl Served {
    pub(super) fn start(path: &Path, ask: Ask) -> Result<Self, OpenError> {
        let started_wall_ns = gpumem_analyzer::ask::header(path)?.started_wall_ns;
        let watch = Arc::new(Watch::start(path, ask, EVERY)?);
        let hub = Arc::new(Hub::default());
        Ok(Self {
            _pump: Pump::start(watch.clone(), hub.clone(), started_wall_ns),
            watch,
            hub,
        })
    }

    pub(super) fn has_readers(&self) -> bool {
        self.hub.has_readers()
    }

    /// Answers a request for the path `below` the capture. `number`: the capture's number in a
    /// folder.
    pub(super) fn answer(
        &self,
        (request, below): (&Request, &str),
        first: Ask,
        (moments, number): (&Moments, Option<usize>),
    ) -> Response {
        match below {
            "" => page(first, number.is_some()),
            "events" if request.is_head => Response::new(200, EVENTS, ""),
            "events" => match View::of(request, first) {
                Ok(view) => match self.hub.join(view) {
                    Some(stream) => Response::stream(EVENTS, stream),
                    None => Response::plain(503, "16 readers are already connected"),
                },
                Err(refusal) => refusal,
            },
            "moment" => moments.answer(request, first, (number.unwrap_or(0), &self.watch)),
            _ => Response::not_found(),
        }
    }
}
