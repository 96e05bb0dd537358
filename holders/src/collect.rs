//! Puts the blocks of like paths together.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::blocks::{Best, Blocks, How};
use crate::heap::Id;
use crate::limits::Limits;
use crate::path::{Path, Paths};
use crate::result::Kind;
use crate::roots::What;
use crate::search::{From, Search};
use crate::text::{Part, Waiting, is_of_module, shape, text};

/// The text and the place of values of functions that run and are not the program's.
const RUNNING: (&str, &str) = ("running calls", "of installed packages");
/// Begins the place of a call that waits, such as that of a coroutine.
const WAITING: &str = "suspended ";

/// A group while it is collected.
pub(crate) struct Group {
    pub(crate) kind: Kind,
    /// The first of the roots.
    pub(crate) root: usize,
    /// The roots, or the calls that wait.
    calls: BTreeSet<usize>,
    /// By the root or the call that waits: the objects of the variables with which the paths begin.
    pub(crate) variables: BTreeSet<(usize, Id)>,
    pub(crate) place: String,
    pub(crate) is_own: bool,
    pub(crate) text: String,
    /// See [`Named`].
    shape: Option<String>,
    pub(crate) numbers: Vec<(i64, i64)>,
    /// The beginning that all paths have in common.
    pub(crate) common: Vec<Id>,
    /// Their numbers.
    pub(crate) blocks: Vec<u32>,
    pub(crate) bytes: u64,
}

impl Group {
    fn add(&mut self, block: u32, bytes: u64, numbers: impl Iterator<Item = i64>) {
        for ((least, most), number) in self.numbers.iter_mut().zip(numbers) {
            (*least, *most) = ((*least).min(number), (*most).max(number));
        }
        self.blocks.push(block);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Adds another one.
    fn join(&mut self, other: Self) {
        for (mine, other) in self.numbers.iter_mut().zip(other.numbers) {
            *mine = (mine.0.min(other.0), mine.1.max(other.1));
        }
        let same = self.common.iter().zip(&other.common);
        let same = same.take_while(|(one, other)| one == other).count();
        self.common.truncate(same);
        self.calls.extend(other.calls);
        self.variables.extend(other.variables);
        self.blocks.extend(other.blocks);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Whether its calls wait.
    pub(crate) fn waits(&self) -> bool {
        let frame = self.place.strip_prefix("local of ");
        frame.is_some_and(|frame| frame.starts_with(WAITING))
    }

    /// Where it is: of a function that has several calls, how many.
    pub(crate) fn place(&self) -> String {
        match (self.place.strip_prefix("local of "), self.calls.len()) {
            (Some(frame), calls) if calls > 1 => match frame.strip_prefix(WAITING) {
                Some(frame) => format!("local of {calls} {WAITING}calls of {frame}"),
                None => format!("local of {calls} calls of {frame}"),
            },
            _ => self.place.clone(),
        }
    }
}

/// The elements of one list: their group, the numbers in its text before that of an element, and the objects of the path
/// to the list.
pub(crate) struct Elements {
    group: usize,
    numbers: Vec<i64>,
    objects: usize,
}

/// The groups of all blocks; false if time ran out.
pub(crate) fn collect(
    paths: &mut Paths<'_>,
    search: &Search,
    blocks: &Blocks,
    limits: &Limits,
) -> (Vec<Group>, bool) {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: BTreeMap<(Kind, String, String), usize> = BTreeMap::new();
    let mut lists: FxHashMap<(How, Id), Elements> = FxHashMap::default();
    for (number, block) in (0u32..).zip(&blocks.all) {
        if number.is_multiple_of(256) && limits.is_over() {
            return (groups, false);
        }
        let Some(Best { how, tensor, .. }) = block.best else {
            continue;
        };
        let list = match search.from(tensor) {
            From::Object(list) => list,
            _ => Id::MAX,
        };
        if let Some(elements) = lists.get(&(how, list))
            && let Some(Part::Index(index)) = paths.element(list, tensor)
            && let Some(group) = groups.get_mut(elements.group)
        {
            let numbers = elements.numbers.iter().copied().chain([index]);
            group.common.truncate(elements.objects);
            group.add(number, block.bytes, numbers);
            continue;
        }
        let Some(path) = paths.path(tensor) else {
            continue;
        };
        let Named {
            kind,
            text,
            shape,
            mut numbers,
            place,
            is_own,
            call,
            first,
        } = named(paths, search, &path, how);
        let key = (kind, place.clone(), text.clone());
        let at = *known.entry(key).or_insert_with(|| {
            groups.push(Group {
                kind,
                root: path.root,
                calls: BTreeSet::new(),
                variables: BTreeSet::new(),
                place,
                is_own,
                text,
                shape,
                numbers: numbers.iter().map(|number| (*number, *number)).collect(),
                common: path.objects.clone(),
                blocks: Vec::new(),
                bytes: 0,
            });
            groups.len() - 1
        });
        let Some(group) = groups.get_mut(at) else {
            continue;
        };
        group.calls.insert(call);
        group.variables.extend(first.map(|first| (call, first)));
        let same = group.common.iter().zip(&path.objects);
        let same = same.take_while(|(one, other)| one == other).count();
        // Several calls have nothing in common that is theirs.
        let is_one = group.calls.len() == 1;
        group.common.truncate(if is_one { same } else { 0 });
        group.add(number, block.bytes, numbers.iter().copied());
        // The last number of the text is that of the element.
        if let Some(Part::Index(index)) = path.parts.last()
            && matches!(kind, Kind::Object | Kind::Graph)
            && is_own
            && numbers.pop() == Some(*index)
        {
            let elements = Elements {
                group: at,
                numbers,
                objects: path.objects.len() - 1,
            };
            lists.insert((how, list), elements);
        }
    }
    (merged(groups), true)
}

/// From this number of keys on, the elements of a dictionary are one group.
const KEYS: usize = 4;

/// Puts groups together that differ only in the last key.
fn merged(groups: Vec<Group>) -> Vec<Group> {
    let mut same: BTreeMap<(Kind, String, String), usize> = BTreeMap::new();
    let key = |of: &Group| Some((of.kind, of.place.clone(), of.shape.clone()?));
    for key in groups.iter().filter_map(key) {
        *same.entry(key).or_default() += 1;
    }
    same.retain(|_, count| *count >= KEYS);
    let mut at: BTreeMap<(Kind, String, String), usize> = BTreeMap::new();
    let mut out: Vec<Group> = Vec::with_capacity(groups.len());
    for mut group in groups {
        let Some(key) = key(&group).filter(|key| same.contains_key(key)) else {
            out.push(group);
            continue;
        };
        if let Some(first) = at.get(&key).and_then(|at| out.get_mut(*at)) {
            first.join(group);
            continue;
        }
        at.insert(key, out.len());
        group.text = group.shape.take().unwrap_or_default();
        out.push(group);
    }
    out
}

/// What a path is called.
struct Named {
    kind: Kind,
    text: String,
    /// The text without its last key, if it has one.
    shape: Option<String>,
    numbers: Vec<i64>,
    place: String,
    /// Whether that is in the program.
    is_own: bool,
    /// The root, or the call that waits.
    call: usize,
    /// The object of the variable with which the path begins.
    first: Option<Id>,
}

fn named(paths: &mut Paths<'_>, search: &Search, path: &Path, how: How) -> Named {
    let mut kind = match (how, kind_of(search, path)) {
        (How::Own, kind) => kind,
        (How::Gradient, _) => Kind::Gradients,
        (_, Kind::Traceback) => Kind::Traceback,
        (How::Graph | How::GraphOfGradient, _) => Kind::Graph,
    };
    let root = search.roots.get(path.root);
    let mut is_own = root.is_some_and(|root| root.is_own);
    let (mut parts, mut place, mut call) = (path.parts.clone(), None, path.root);
    let mut first = path.objects.first().copied();
    // What an event loop has is a variable of the program's call that waits in it.
    let is_live = !matches!(kind, Kind::Cycle | Kind::Traceback);
    if let Some((at, of)) = waiting(path).filter(|_| !is_own && is_live) {
        let name = of.variable.as_deref().unwrap_or("value");
        parts.splice(..=at, [Part::Name(name.to_owned())]);
        place = Some(format!("local of {WAITING}{}", of.place));
        call = path.objects.get(at - 1).map_or(call, |id| *id as usize);
        first = path.objects.get(at).copied();
        is_own = true;
        if kind == Kind::Native {
            kind = Kind::Object;
        }
    }
    // What the functions of packages that run call their values says nothing.
    if !is_own && root.is_some_and(|root| matches!(root.what, What::Local(..))) {
        return Named {
            kind,
            text: String::from(RUNNING.0),
            shape: None,
            numbers: Vec::new(),
            place: String::from(RUNNING.1),
            is_own,
            call,
            first,
        };
    }
    // A module is one holder of its parameters. A graph hangs on one of them, or on another attribute.
    let is_module = |part: &Part| matches!(part, Part::Name(name) if is_of_module(name));
    let module = parts.iter().position(is_module);
    let is_of_gradients = how == How::GraphOfGradient;
    match (kind, module) {
        (Kind::Graph, Some(end)) if is_of_gradients => parts.truncate(end),
        (Kind::Object | Kind::Graph, _) | (_, None) => {}
        (_, Some(end)) => parts.truncate(end),
    }
    if kind == Kind::Traceback && module.is_none() {
        parts.truncate(up_to_variable(&parts));
    }
    if kind == Kind::Gradients && module.is_none() {
        parts.push(Part::Name(String::from("grad")));
    }
    let mut numbers = Vec::new();
    let mut text = text(&parts, &mut numbers);
    if kind == Kind::Graph && is_of_gradients {
        text = format!("gradients of {text}");
    }
    let is_named = matches!(kind, Kind::Object | Kind::Parameters | Kind::Gradients);
    let shape = shape(&parts).filter(|_| is_named);
    Named {
        kind,
        text,
        shape,
        numbers,
        place: place.unwrap_or_else(|| paths.place(path.root)),
        is_own,
        call,
        first,
    }
}

/// The innermost coroutine on a whole path, or the innermost generator, and the index of its part.
fn waiting(path: &Path) -> Option<(usize, &Waiting)> {
    if path.parts.len() != path.objects.len() {
        return None;
    }
    let all = path.parts.iter().enumerate().skip(1);
    let mut all = all.rev().filter_map(|(at, part)| match part {
        Part::Waiting(of) => Some((at, of)),
        _ => None,
    });
    let first = all.clone().next();
    all.find(|(_, of)| of.word == "coroutine").or(first)
}

/// The number of parts up to the variable of a frame: what it refers to is not named.
fn up_to_variable(parts: &[Part]) -> usize {
    let last = parts
        .iter()
        .rposition(|part| matches!(part, Part::Arrow(_) | Part::Waiting(_)));
    last.map_or(parts.len(), |last| last + 1)
}

fn kind_of(search: &Search, path: &Path) -> Kind {
    // What hangs on a parameter, such as a hook, is not the module's.
    let is_dictionary = |part: &Part| matches!(part, Part::Name(name) if name == "_parameters" || name == "_buffers");
    let is_parameter = || {
        let mut after = path.parts.rsplit(is_dictionary);
        let own = after.next().unwrap_or_default();
        let is_key = |part: &Part| matches!(part, Part::Key(_) | Part::Silent);
        after.next().is_some() && own.iter().all(is_key)
    };
    let is_kept = |part: &Part| matches!(part, Part::Arrow(text) if text == "traceback");
    match search.roots.get(path.root).map(|root| &root.what) {
        Some(What::Native(_)) => Kind::Native,
        Some(What::Cycle) => Kind::Cycle,
        Some(What::Handled) => Kind::Traceback,
        _ if path.parts.iter().any(is_kept) => Kind::Traceback,
        _ if is_parameter() => Kind::Parameters,
        _ => Kind::Object,
    }
}
