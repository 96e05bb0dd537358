//! The view that a reader requests.

use crate::frames::Sort;
use crate::frames::{Ask, By, Moment};
use gpumem_capture::{DeviceOrdinal, Level};
use gpumem_http::{Request, Response};

/// The most characters of a filter.
pub(super) const FILTER: usize = 200;

const LEVELS: [Level; Level::COUNT] = [Level::TENSOR, Level::DRIVER, Level::HOST, Level::PHYSICAL];

/// The table that a reader requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) ask: Ask,
    pub(super) sort: Sort,
    pub(super) filter: String,
}

impl View {
    /// The view of a request's query. `first`: the defaults.
    pub(super) fn of(request: &Request, first: Ask) -> Result<Self, Response> {
        Self::of_pairs(request.query.iter(), first)
    }

    /// The same from some of its pairs.
    pub(super) fn of_pairs<'a>(
        pairs: impl Iterator<Item = &'a (String, String)>,
        first: Ask,
    ) -> Result<Self, Response> {
        let mut view = Self {
            ask: first,
            ..Self::default()
        };
        for (name, value) in pairs {
            let is_known = match name.as_str() {
                "token" => true,
                "by" => set(&mut view.ask.by, by(value)),
                "moment" => set(&mut view.ask.moment, moment(value)),
                "level" => set(&mut view.ask.level, level(value)),
                "device" => set(&mut view.ask.device, device(value)),
                "sort" => set(&mut view.sort, sort(value)),
                "filter" if value.chars().count() <= FILTER => {
                    view.filter.clone_from(value);
                    true
                }
                _ => false,
            };
            if !is_known {
                return Err(Response::plain(400, "the query has an unknown choice"));
            }
        }
        Ok(view)
    }
}

fn set<T>(place: &mut T, value: Option<T>) -> bool {
    value.map(|value| *place = value).is_some()
}

fn by(word: &str) -> Option<By> {
    match word {
        "line" => Some(By::Line),
        "category" => Some(By::Category),
        "module" => Some(By::Module),
        _ => None,
    }
}

fn moment(word: &str) -> Option<Moment> {
    match word {
        "now" => Some(Moment::Now),
        "peak" => Some(Moment::Peak),
        _ => None,
    }
}

/// The outer `None`: the level does not exist; the inner one: the level with the most detail.
fn level(word: &str) -> Option<Option<Level>> {
    match word {
        "" => Some(None),
        word => LEVELS
            .into_iter()
            .find(|level| level.name() == word)
            .map(Some),
    }
}

fn device(number: &str) -> Option<Option<DeviceOrdinal>> {
    match number {
        "" => Some(None),
        number => number.parse().ok().map(|n| Some(DeviceOrdinal(n))),
    }
}

fn sort(word: &str) -> Option<Sort> {
    match word {
        "bytes" => Some(Sort::Bytes),
        "blocks" => Some(Sort::Blocks),
        "name" => Some(Sort::Name),
        _ => None,
    }
}
