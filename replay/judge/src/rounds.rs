//! The rounds of the program's loops, as the order of its allocations shows them.
//!
//! A thread that allocates at an earlier place of a function than before, with the same callers, goes round a loop: in
//! this function, or by calling it again. Loops within a forward do not count: a network's layers are no rounds. If
//! all allocations of a round are in one forward, the round begins with the stack that came first, unless that may be
//! another layer.

use std::hash::{Hash, Hasher};

use gpumem_capture::{CodeId, Seq, StackId, ThreadId};
use gpumem_replay::names::Names;
use rustc_hash::{FxHashMap, FxHasher};

use crate::path::{Path, Step};

/// How many starts of rounds a loop keeps. Above that, every second one of the older half is dropped.
const STARTS: usize = 1 << 14;
/// How many loops are kept.
const LOOPS: usize = 1 << 14;

/// A loop: callers, a function, and the part of the function that it runs through.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    /// The number of callers.
    pub depth: usize,
    /// A hash of the callers.
    callers: u64,
    pub code: CodeId,
    /// The first and the last offset in the function.
    pub first: i32,
    last: i32,
    /// Whether each allocation of one line counts as a round.
    pub is_line: bool,
    rounds: u64,
    starts: Vec<Start>,
    /// How many of the starts there are up to the newest that is no part of a round.
    sure: usize,
    /// Whether a call that comes again was a part of a round before, such as a step in time.
    has_parts: bool,
    /// Whether a backward ran through its forwards.
    has_backward: bool,
}

/// The start of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub round: u64,
    pub seq: Seq,
    /// How many backwards had begun: see [`crate::Follow`].
    pub backwards: u64,
}

impl Loop {
    /// The number of the round that runs; the first one began before the loop was known.
    pub fn round(&self) -> u64 {
        self.rounds
    }

    /// Whether all allocations of a round are within one call.
    pub fn is_one_call(&self) -> bool {
        self.first == self.last
    }

    /// The round of an allocation.
    pub fn round_at(&self, seq: Seq) -> u64 {
        let after = self.starts.partition_point(|start| start.seq <= seq);
        match after.checked_sub(1) {
            Some(at) => self.starts[at].round,
            None => 1,
        }
    }

    /// The start of the newest round.
    pub fn newest(&self) -> Option<Start> {
        self.starts.last().copied()
    }

    /// The starts that are kept, in order.
    pub fn starts(&self) -> &[Start] {
        &self.starts
    }

    /// Whether a path runs through it.
    pub fn contains(&self, path: &Path) -> bool {
        let Some(step) = path.site().get(self.depth) else {
            return false;
        };
        step.code == self.code
            && (self.first..=self.last).contains(&step.offset)
            && hash(&path.steps[..self.depth]) == self.callers
    }

    /// Whether another loop runs within each of its rounds.
    pub fn encloses(&self, other: &Self, path: &Path) -> bool {
        let is_outer = self.depth < other.depth
            || (self.depth == other.depth && (self.first, -self.last) < (other.first, -other.last));
        is_outer && self.contains(path) && other.contains(path)
    }

    /// A round begins. Returns false if it is a part of the one that runs.
    ///
    /// If it begins with a call that comes again (`is_call`), only what follows shows whether that is a part: then one
    /// backward ends all of them.
    fn begin(&mut self, seq: Seq, backwards: u64, is_call: bool) -> bool {
        let newest = self.starts.get(self.sure.wrapping_sub(1));
        let before = newest.map_or(0, |start| start.backwards);
        if is_call && self.has_parts && backwards == before {
            return false;
        }
        if backwards > before && self.has_backward {
            let later = self.starts.iter().skip(self.sure);
            let parts = later.take_while(|of| of.backwards == before).count();
            self.starts.drain(self.sure..self.sure + parts);
            self.has_parts |= parts > 0;
            self.rounds -= parts as u64;
            for start in self.starts.iter_mut().skip(self.sure) {
                start.round -= parts as u64;
            }
        }
        self.rounds += 1;
        if self.starts.len() >= STARTS {
            let older = STARTS / 2;
            let mut at = 0;
            let sure = self.sure;
            self.starts.retain(|_| {
                at += 1;
                let stays = at > older || at % 2 == 1;
                self.sure -= usize::from(!stays && at <= sure);
                stays
            });
        }
        self.starts.push(Start {
            round: self.rounds,
            seq,
            backwards,
        });
        if !is_call || backwards > before {
            self.sure = self.starts.len();
        }
        true
    }
}

fn hash(steps: &[Step]) -> u64 {
    let mut hasher = FxHasher::default();
    steps.hash(&mut hasher);
    hasher.finish()
}

/// What a thread did last.
#[derive(Clone, Copy, Debug)]
struct Thread {
    stack: StackId,
    /// The first stack of the forward that it runs.
    leader: StackId,
}

/// How a thread went from one stack to the next.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// On, or into another function.
    On,
    /// Back to the start of this loop.
    Back(usize),
    /// To another stack of the same forward.
    Within,
    /// To another stack of the same forward, which may belong to another call of it.
    Again,
}

/// Follows the allocations of all threads.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    paths: FxHashMap<StackId, Path>,
    threads: FxHashMap<ThreadId, Thread>,
    moves: FxHashMap<(StackId, StackId), Move>,
    loops: Vec<Loop>,
    by_place: FxHashMap<(u64, Step), usize>,
    /// The oldest functions of threads.
    roots: FxHashMap<CodeId, usize>,
}

impl Rounds {
    /// The path of a stack.
    pub fn path(&mut self, names: &Names, stack: StackId) -> &Path {
        let loops = &mut self.loops;
        self.paths.entry(stack).or_insert_with(|| {
            let path = Path::of(names, stack);
            if path.is_backward {
                let all = loops.iter_mut().filter(|of| of.contains(&path));
                all.for_each(|of| of.has_backward = true);
            }
            path
        })
    }

    /// The path of a stack that was passed to [`Self::path`] or [`Self::reach`].
    pub fn known_path(&self, stack: StackId) -> Option<&Path> {
        self.paths.get(&stack)
    }

    /// The paths of the forwards through which backwards ran.
    pub fn backwards(&self) -> impl Iterator<Item = &Path> {
        self.paths.values().filter(|path| path.is_backward)
    }

    /// All loops.
    pub fn loops(&self) -> &[Loop] {
        &self.loops
    }

    /// A thread allocates with a Python stack. Returns the index of the loop whose next round begins with it.
    pub fn reach(
        &mut self,
        names: &Names,
        (thread, stack): (ThreadId, StackId),
        (seq, backwards): (Seq, u64),
    ) -> Option<usize> {
        if stack == StackId::NONE || self.path(names, stack).is_backward {
            return None;
        }
        let Some(before) = self.threads.get(&thread).copied() else {
            let leader = stack;
            self.threads.insert(thread, Thread { stack, leader });
            return self.begin_thread(stack, seq, backwards);
        };
        let found = match self.moves.get(&(before.stack, stack)) {
            Some(found) => *found,
            None => self.new_move(names, before.stack, stack),
        };
        let mut leader = before.leader;
        let (back, is_call) = match found {
            Move::Back(at) => {
                leader = stack;
                (Some(at), false)
            }
            Move::On => {
                leader = stack;
                (None, false)
            }
            Move::Again if stack == before.leader => (self.innermost(stack, false), true),
            Move::Within if before.stack == stack => (self.of_line(stack), true),
            Move::Within | Move::Again => (None, true),
        };
        self.threads.insert(thread, Thread { stack, leader });
        back.filter(|at| self.loops[*at].begin(seq, backwards, is_call))
    }

    /// A thread begins with a function with which others began: each thread is a round.
    fn begin_thread(&mut self, stack: StackId, seq: Seq, backwards: u64) -> Option<usize> {
        let code = self.paths.get(&stack)?.steps.first()?.code;
        let place = Step {
            code,
            offset: i32::MIN,
        };
        self.roots.insert(code, 0)?;
        let at = self.at(0, 0, place, i32::MAX, false)?;
        self.loops[at].begin(seq, backwards, false);
        Some(at)
    }

    #[cold]
    fn new_move(&mut self, names: &Names, from: StackId, to: StackId) -> Move {
        let (a, b) = (self.path(names, from).clone(), self.path(names, to).clone());
        let same = a.steps.iter().zip(&*b.steps).take_while(|(a, b)| a == b);
        let depth = same.count();
        let found = match (a.steps.get(depth), b.steps.get(depth)) {
            _ if depth >= a.outside && depth >= b.outside => {
                // Layers have the same functions. A stack that names modules belongs to one of them.
                let tells_modules = names.module_of(to).is_some();
                let goes_back = b.steps.get(depth).is_some_and(|step| {
                    depth <= b.forward && a.steps.get(depth).is_some_and(|of| of.code == step.code)
                });
                match from != to && (tells_modules || goes_back) {
                    true => Move::Again,
                    false => Move::Within,
                }
            }
            (Some(before), Some(now)) if before.code == now.code && depth < a.outside => {
                match now.offset < before.offset && depth < b.outside {
                    true => self.back(&b, depth, before.offset),
                    false => Move::On,
                }
            }
            // The same call runs again, with another function.
            (Some(_), Some(_)) if depth > 0 => self.back(&b, depth - 1, b.steps[depth - 1].offset),
            _ => Move::On,
        };
        self.moves.insert((from, to), found);
        found
    }

    fn back(&mut self, to: &Path, depth: usize, last: i32) -> Move {
        let callers = hash(&to.steps[..depth]);
        match self.at(depth, callers, to.steps[depth], last, false) {
            Some(at) => Move::Back(at),
            None => Move::On,
        }
    }

    /// The loop of one line.
    fn of_line(&mut self, stack: StackId) -> Option<usize> {
        let path = self.paths.get(&stack)?;
        match path.in_forward() {
            true => None,
            false => self.innermost(stack, true),
        }
    }

    fn innermost(&mut self, stack: StackId, is_line: bool) -> Option<usize> {
        let path = self.paths.get(&stack)?;
        let depth = path.outside.checked_sub(1)?;
        let (callers, step) = (hash(&path.steps[..depth]), path.steps[depth]);
        self.at(depth, callers, step, step.offset, is_line)
    }

    /// The loop that begins at a place, a new one if it is not known.
    fn at(
        &mut self,
        depth: usize,
        callers: u64,
        first: Step,
        last: i32,
        is_line: bool,
    ) -> Option<usize> {
        let next = self.loops.len();
        let at = *self.by_place.entry((callers, first)).or_insert(next);
        if at == next {
            if next >= LOOPS {
                self.by_place.remove(&(callers, first));
                return None;
            }
            self.loops.push(Loop {
                depth,
                callers,
                code: first.code,
                first: first.offset,
                last,
                is_line,
                rounds: 1,
                starts: Vec::new(),
                sure: 0,
                has_parts: false,
                has_backward: false,
            });
            let mut backwards = self.paths.values().filter(|path| path.is_backward);
            self.loops[at].has_backward = backwards.any(|path| self.loops[at].contains(path));
        }
        let of = &mut self.loops[at];
        of.last = of.last.max(last);
        of.is_line &= is_line;
        Some(at)
    }
}

#[cfg(test)]
mod tests;
