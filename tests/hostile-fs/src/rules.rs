//! Rules for requests. Every request passes `Rules::pass` before it is carried out.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::operation::{Operation, Operations};

/// What a rule does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The request is carried out later.
    Delay(Duration),
    /// The request is not carried out and fails with this error.
    Fail(i32),
    /// The request is held until the rule is removed.
    Freeze,
    /// Only this many bytes of a read or write are carried out.
    Short(u32),
}

/// An action, and the requests to which it applies: of these operations, counted since the rule was added,
/// number `from` (the first is 1) and those that follow, `count` in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub action: Action,
    pub operations: Operations,
    pub from: u64,
    pub count: u64,
}

/// A rule in force.
struct Entry {
    id: u64,
    rule: Rule,
    seen: u64,
}

/// Requests of one operation: arrived, passed, and currently held by a freeze.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub came: u64,
    pub passed: u64,
    pub held: u64,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    next_id: u64,
    counts: [Count; Operation::ALL.len()],
}

impl State {
    fn has(&self, id: u64) -> bool {
        self.entries.iter().any(|entry| entry.id == id)
    }
}

/// All rules in force.
#[derive(Default)]
pub struct Rules {
    state: Mutex<State>,
    changed: Condvar,
}

impl Rules {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rule after the existing ones.
    pub fn add(&self, rule: Rule) {
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        state.entries.push(Entry { id, rule, seen: 0 });
    }

    /// Removes the rules that `which` selects. Requests that they hold or delay continue at once.
    pub fn remove(&self, which: impl Fn(&Rule) -> bool) {
        self.state().entries.retain(|entry| !which(&entry.rule));
        self.changed.notify_all();
    }

    /// Applies all rules to a request, in the order in which they were added. Returns the most bytes that the
    /// request may use once it may be carried out, or its error.
    pub fn pass(&self, operation: Operation) -> Result<u32, i32> {
        let mut state = self.state();
        state.counts[operation as usize].came += 1;
        let mut actions = Vec::new();
        for entry in &mut state.entries {
            if entry.rule.operations.contains(operation) {
                entry.seen += 1;
                if entry.seen >= entry.rule.from && entry.seen - entry.rule.from < entry.rule.count
                {
                    actions.push((entry.id, entry.rule.action));
                }
            }
        }
        self.changed.notify_all();
        let mut most = u32::MAX;
        let mut failed = None;
        for (id, action) in actions {
            match action {
                Action::Delay(time) => state = self.delayed(state, id, time),
                Action::Freeze => {
                    state.counts[operation as usize].held += 1;
                    self.changed.notify_all();
                    while state.has(id) {
                        state = self
                            .changed
                            .wait(state)
                            .unwrap_or_else(PoisonError::into_inner);
                    }
                    state.counts[operation as usize].held -= 1;
                }
                Action::Short(bytes) => most = most.min(bytes),
                Action::Fail(errno) => failed = failed.or(Some(errno)),
            }
        }
        state.counts[operation as usize].passed += 1;
        drop(state);
        self.changed.notify_all();
        failed.map_or(Ok(most), Err)
    }

    /// Waits for a time, or until the rule is removed.
    fn delayed<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        id: u64,
        time: Duration,
    ) -> MutexGuard<'a, State> {
        let end = Instant::now() + time;
        while state.has(id) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state
    }

    /// The counts of each operation.
    pub fn counts(&self) -> [Count; Operation::ALL.len()] {
        self.state().counts
    }

    /// Waits until the sums over some operations satisfy `enough`.
    pub fn wait(&self, operations: Operations, enough: impl Fn(Count) -> bool) {
        let mut state = self.state();
        loop {
            let mut sum = Count::default();
            for &operation in Operation::ALL {
                if operations.contains(operation) {
                    let count = state.counts[operation as usize];
                    sum.came += count.came;
                    sum.passed += count.passed;
                    sum.held += count.held;
                }
            }
            if enough(sum) {
                return;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn rule(operations: &str, action: Action) -> Rule {
        Rule {
            action,
            operations: Operations::parse(operations).unwrap(),
            from: 1,
            count: u64::MAX,
        }
    }

    #[test]
    fn a_rule_fails_the_requests_of_its_range() {
        let rules = Rules::default();
        rules.add(Rule {
            from: 2,
            count: 2,
            ..rule("data", Action::Fail(5))
        });
        let mut found = Vec::new();
        for _ in 0..5 {
            found.push(rules.pass(Operation::Write).is_ok());
            assert!(rules.pass(Operation::Read).is_ok());
        }
        assert_eq!(found, [true, false, false, true, true]);
        assert_eq!(rules.counts()[Operation::Write as usize].passed, 5);
    }

    #[test]
    fn a_frozen_request_holds_no_other_operation() {
        let rules = Arc::new(Rules::default());
        rules.add(rule("write", Action::Freeze));
        let held = std::thread::spawn({
            let rules = Arc::clone(&rules);
            move || rules.pass(Operation::Write)
        });
        rules.wait(Operations::parse("write").unwrap(), |count| count.held == 1);
        assert_eq!(rules.pass(Operation::Read), Ok(u32::MAX));
        assert_eq!(rules.counts()[Operation::Write as usize].passed, 0);
        rules.remove(|rule| rule.action == Action::Freeze);
        assert_eq!(held.join().unwrap(), Ok(u32::MAX));
    }

    #[test]
    fn the_least_of_short_lengths_counts() {
        let rules = Rules::default();
        rules.add(rule("write", Action::Short(100)));
        rules.add(rule("write", Action::Short(7)));
        assert_eq!(rules.pass(Operation::Write), Ok(7));
        rules.remove(|_| true);
        assert_eq!(rules.pass(Operation::Write), Ok(u32::MAX));
    }
}
