//! Past points in time for all readers; one is read at a time.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::frames::{Ask, Given, Kind, Page, Request as Question, Then, Want, Watch, Which};
use gpumem_capture::{Nanos, Seq};
use gpumem_http::{Request, Response};
use serde::Serialize;

use super::now::Now;
use super::table::{Shown, key, which};
use super::view::View;

/// The most clients that wait.
const CLIENTS: usize = 16;
/// The most characters of a client's name.
const NAME: usize = 32;
/// A client that has not repeated its request for this long has left.
const GONE: Duration = Duration::from_secs(3);
/// Columns of the account.
const COLUMNS: u16 = 100;

/// The clients that wait for a point in time, in order of arrival. The first one's is being read.
#[derive(Default)]
pub(super) struct Moments {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    clients: Vec<Client>,
    /// The capture that is being read, or was read last.
    reads: Weak<Watch>,
}

struct Client {
    name: String,
    wish: Wish,
    /// The row of the requested stacks, once the table at that point in time is known.
    row: Option<Which>,
    seen: Instant,
}

/// The request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    capture: usize,
    then: Then,
    pub(super) view: View,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Frame,
    Account,
    /// The stacks of the row with this key.
    Row(String),
    Cause(Seq),
}

#[derive(Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
enum Told<'a> {
    /// The number of clients before this one.
    Waiting {
        before: usize,
    },
    /// Bytes read, of bytes in all.
    Reading {
        read: Option<(u64, u64)>,
    },
    Refused {
        why: &'a str,
    },
    Done(Box<Moment<'a>>),
}

#[derive(Serialize)]
struct Moment<'a> {
    now: Now<'a>,
    table: Shown,
    page: Option<Text<'a>>,
}

#[derive(Serialize)]
struct Text<'a> {
    title: &'a str,
    lines: Vec<(&'static str, &'a str)>,
}

impl Moments {
    /// Returns the result, or the progress, at once. A client repeats its request until it has the result; its newest
    /// request applies.
    pub(super) fn answer(
        &self,
        request: &Request,
        first: Ask,
        (capture, watch): (usize, &Arc<Watch>),
    ) -> Response {
        let Some((name, wish)) = wish(request, first, capture) else {
            return Response::plain(400, "the query has an unknown choice");
        };
        if request.is_head {
            return Response::new(200, JSON, "");
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Queue { clients, reads } = &mut *queue;
        let Some(at) = place(clients, name, &wish, Instant::now()) else {
            return Response::plain(503, "16 readers are already waiting");
        };
        let Some(client) = clients.get_mut(at) else {
            return Response::not_found();
        };
        if client.wish != wish {
            (client.wish, client.row) = (wish, None);
        }
        if at > 0 {
            return json(&Told::Waiting { before: at });
        }
        if let Some(other) = reads.upgrade().filter(|other| !Arc::ptr_eq(other, watch)) {
            other.past().give_up();
        }
        *reads = Arc::downgrade(watch);
        let (response, is_done) = client.next(watch);
        if is_done {
            clients.remove(0);
        }
        response
    }
}

/// A client's place among those that have not left; a new one gets the last place. `None` if there is no room for it.
fn place(clients: &mut Vec<Client>, name: String, wish: &Wish, now: Instant) -> Option<usize> {
    clients.retain(|of| of.name == name || now.saturating_duration_since(of.seen) < GONE);
    let at = match clients.iter().position(|of| of.name == name) {
        Some(at) => at,
        None if clients.len() >= CLIENTS => return None,
        None => {
            clients.push(Client {
                name,
                wish: wish.clone(),
                row: None,
                seen: now,
            });
            clients.len() - 1
        }
    };
    clients.get_mut(at)?.seen = now;
    Some(at)
}

impl Client {
    /// Continues with the first client's request; returns whether it is completed.
    fn next(&mut self, watch: &Watch) -> (Response, bool) {
        let past = watch.past();
        loop {
            let question = self.question();
            past.ask(question.clone());
            let answer = past.answer().filter(|answer| answer.request == question);
            let Some(answer) = answer else {
                let read = past.progress();
                return (json(&Told::Reading { read }), false);
            };
            match &answer.given {
                Err(why) => return (json(&Told::Refused { why }), true),
                Ok(given) => match (&self.wish.what, &self.row) {
                    (What::Row(of), None) => match which(&given.frame.table, of) {
                        Some(row) => self.row = Some(row),
                        None => {
                            let why = "this row has no live memory at this event";
                            return (json(&Told::Refused { why }), true);
                        }
                    },
                    _ => return (json(&done(given, &self.wish.view)), true),
                },
            }
        }
    }

    fn question(&self) -> Question {
        let Wish {
            then, view, what, ..
        } = &self.wish;
        let want = match (what, &self.row) {
            (What::Frame, _) | (What::Row(_), None) => Want::Frame,
            (What::Account, _) => Want::Account(COLUMNS),
            (What::Row(_), Some(row)) => match view.ask.level {
                Some(level) => Want::Stacks(level, Box::new(row.clone())),
                None => Want::Frame,
            },
            (What::Cause(seq), _) => Want::Cause(*seq, COLUMNS),
        };
        Question {
            then: *then,
            ask: view.ask,
            want,
        }
    }
}

fn done<'a>(given: &'a Given, view: &View) -> Told<'a> {
    Told::Done(Box::new(Moment {
        now: Now::of(&given.frame),
        table: Shown::of(&given.frame.table, view),
        page: given.page.as_deref().map(text),
    }))
}

fn text(page: &Page) -> Text<'_> {
    let kind = |kind: &Kind| match kind {
        Kind::Plain => "plain",
        Kind::Strong => "strong",
        Kind::Faint => "faint",
        Kind::Marked => "marked",
    };
    let lines = page.lines.iter();
    Text {
        title: &page.title,
        lines: lines.map(|(of, text)| (kind(of), text.as_str())).collect(),
    }
}

/// The client's name and request; `None` if the query is malformed.
pub(super) fn wish(request: &Request, first: Ask, capture: usize) -> Option<(String, Wish)> {
    let is_own = |name: &str| ["client", "at", "want"].contains(&name);
    let others = request.query.iter().filter(|(name, _)| !is_own(name));
    let view = View::of_pairs(others, first).ok()?;
    let name = request.value("client")?;
    let is_name = |c: char| c.is_ascii_alphanumeric();
    if name.is_empty() || name.len() > NAME || !name.chars().all(is_name) {
        return None;
    }
    let (kind, number) = request.value("at")?.split_once(':')?;
    let number: u64 = number.parse().ok()?;
    let then = match kind {
        "event" => Then::Event(Seq(number)),
        "time" => Then::Time(Nanos(number)),
        _ => return None,
    };
    let what = match request.value("want").unwrap_or("frame").split_once(':') {
        None if request.value("want").is_none_or(|of| of == "frame") => What::Frame,
        None if request.value("want") == Some("account") => What::Account,
        // The level must be known: it is that of the table that has the row.
        Some(("row", of)) if of.len() == key::LENGTH => {
            view.ask.level?;
            What::Row(of.to_owned())
        }
        Some(("cause", of)) => What::Cause(Seq(of.parse().ok()?)),
        _ => return None,
    };
    let wish = Wish {
        capture,
        then,
        view,
        what,
    };
    Some((name.to_owned(), wish))
}

fn json(told: &Told<'_>) -> Response {
    let text = serde_json::to_string(told).unwrap_or_else(|_| "{}".into());
    Response::new(200, JSON, text)
}

const JSON: &str = "application/json";

#[cfg(test)]
mod tests {
    use super::*;

    fn wish() -> Wish {
        Wish {
            capture: 0,
            then: Then::Event(Seq(1)),
            view: View::default(),
            what: What::Frame,
        }
    }

    #[test]
    fn sixteen_clients_wait_in_the_order_of_their_arrival() {
        let (mut clients, now) = (Vec::new(), Instant::now());
        let mut at = |name: usize| place(&mut clients, name.to_string(), &wish(), now);
        for name in 0..16 {
            assert_eq!(at(name), Some(name));
        }
        assert_eq!(at(16), None, "no room for one more");
        assert_eq!(at(5), Some(5), "a client that asks again keeps its place");
    }

    #[test]
    fn a_client_that_does_not_repeat_its_request_leaves() {
        let (mut clients, begin) = (Vec::new(), Instant::now());
        let mut at = |name: &str, after: Duration| {
            place(&mut clients, name.to_owned(), &wish(), begin + after)
        };
        assert_eq!(at("a", Duration::ZERO), Some(0));
        assert_eq!(at("b", GONE / 2), Some(1));
        assert_eq!(at("c", GONE / 2), Some(2));
        assert_eq!(at("c", GONE), Some(1), "a has left, b has not");
        assert_eq!(at("c", GONE * 2), Some(0));
        assert_eq!(at("a", GONE * 2), Some(1), "it comes back as the last");
    }
}
