//! Operations on the state: stream capture.

use crate::ffi::{Answer, CuError, require};
use crate::model::State;
use crate::model::capture::*;
use crate::model::context::Current;
use crate::model::graph::Work;
use crate::model::stream::{Captured, On, this_thread};
use crate::model::user_object::Ended;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

impl State {
    /// `cuStreamBeginCapture`, `cuStreamBeginCaptureToGraph`.
    pub fn begin_capture(
        &mut self,
        on: On,
        into: Option<(usize, Vec<usize>)>,
        mode: u32,
    ) -> Answer {
        require(mode <= RELAXED)?;
        let at = self.stream_at(on)?;
        if on == On::LEGACY {
            return Err(CuError::STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.captures.of(on).is_some() {
            return Err(CuError::ILLEGAL_STATE);
        }
        let into_existing = into.is_some();
        let (graph, nodes) = match into {
            Some((graph, nodes)) => {
                self.graphs.get(graph)?;
                self.graphs.check_nodes(graph, &nodes)?;
                (graph, nodes)
            }
            None => (self.graphs.create(), Vec::new()),
        };
        self.captures.made += 1;
        let capture = Capture {
            graph,
            valid: true,
            into_existing,
            origin: on,
            thread: this_thread(),
            mode,
            context: at.context,
            tips: BTreeMap::from([(on, Tip::of(nodes))]),
        };
        self.captures.live.insert(self.captures.made, capture);
        Ok(())
    }

    /// `cuStreamEndCapture`: returns the graph.
    ///
    /// # Errors
    /// The rule that was broken. The capture ends in this case, too, except for a wrong stream or
    /// thread. Calls to make without the lock are then in `left`.
    pub fn end_capture(&mut self, on: On, left: &mut Ended) -> Answer<usize> {
        self.stream_at(on)?;
        let (id, capture, tip) = self.captures.of(on).ok_or(CuError::ILLEGAL_STATE)?;
        if capture.origin != on {
            self.captures.invalidate(id);
            return Err(CuError::STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != RELAXED && capture.thread != this_thread() {
            return Err(CuError::STREAM_CAPTURE_WRONG_THREAD);
        }
        let (graph, valid, existing) = (capture.graph, capture.valid, capture.into_existing);
        let tips = capture.tips.values().flat_map(|tip| &tip.nodes);
        let joined = self.comes_before(graph, tips.copied().collect(), tip.nodes.clone());
        self.captures.live.remove(&id);
        let ended = match (valid, joined) {
            (true, true) => return Ok(graph),
            (true, false) => CuError::STREAM_CAPTURE_UNJOINED,
            (false, _) => CuError::STREAM_CAPTURE_INVALIDATED,
        };
        if !existing {
            *left = self.destroy_graph(graph)?;
        }
        Err(ended)
    }

    /// Whether all `nodes` are among `last` or come before them.
    pub(crate) fn comes_before(
        &self,
        graph: usize,
        nodes: BTreeSet<usize>,
        mut last: Vec<usize>,
    ) -> bool {
        let Ok(graph) = self.graphs.get(graph) else {
            return false;
        };
        let mut seen = BTreeSet::new();
        while let Some(node) = last.pop() {
            if seen.insert(node) {
                last.extend(graph.nodes.get(&node).iter().flat_map(|node| &node.after));
            }
        }
        nodes.is_subset(&seen)
    }

    /// Whether work for a stream is captured. If so, it becomes a node and must not be done now.
    ///
    /// # Errors
    /// Errors of the rules of capture, and errors of `make`.
    pub fn captured(
        &mut self,
        on: On,
        make: impl FnOnce(&mut Self, usize, &[usize]) -> Answer<usize>,
    ) -> Answer<bool> {
        let at = self.stream_at(on)?;
        self.check_legacy(on, at, true)?;
        let Some((_, capture)) = self.captures.active(on)? else {
            return Ok(false);
        };
        let graph = capture.graph;
        let after = capture.tips.get(&on).cloned().unwrap_or_default();
        let node = make(self, graph, &after.nodes)?;
        if let Some((_, capture)) = self.captures.active(on)? {
            capture.tips.insert(on, Tip::of(vec![node]));
        }
        Ok(true)
    }

    /// [`captured`](Self::captured), for work that is already complete.
    pub fn captured_as(&mut self, on: On, work: Work) -> Answer<bool> {
        self.captured(on, |state, graph, after| {
            state.graphs.add(graph, after, work)
        })
    }

    /// For work that cannot be captured: it invalidates the capture of its stream.
    pub fn not_captured(&mut self, on: On) -> Answer<Current> {
        let at = self.stream_at(on)?;
        self.check_legacy(on, at, true)?;
        if let Some((id, _)) = self.captures.active(on)? {
            self.captures.invalidate(id);
            return Err(CuError::STREAM_CAPTURE_UNSUPPORTED);
        }
        Ok(at)
    }

    /// The legacy stream would have to wait for blocking streams, which is not allowed in a
    /// capture.
    pub fn check_legacy(&mut self, on: On, at: Current, spoils: bool) -> Answer {
        if on != On::LEGACY {
            return Ok(());
        }
        let ids: Vec<u64> = self.captures.live.keys().copied().collect();
        for id in ids {
            let capture = &self.captures.live[&id];
            let blocking = capture.tips.keys().any(|on| self.is_blocking(*on));
            if capture.context == at.context && blocking {
                if spoils {
                    self.captures.invalidate(id);
                }
                return Err(CuError::STREAM_CAPTURE_IMPLICIT);
            }
        }
        Ok(())
    }

    /// For calls that are unsafe during captures: allocation, synchronisation, queries.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_UNSUPPORTED`, and the capture is invalidated, if this thread has a capture
    /// that is not relaxed, or if another thread has a global capture and this thread's mode is
    /// global. Never if this thread's mode is relaxed.
    pub fn unsafe_call(&mut self) -> Answer {
        let mode = MODE.with(Cell::get);
        let (me, mut forbidden) = (this_thread(), false);
        for capture in self.captures.live.values_mut() {
            let mine = capture.thread == me && capture.mode != RELAXED;
            let others = capture.thread != me && capture.mode == GLOBAL && mode == GLOBAL;
            if mode != RELAXED && (mine || others) {
                capture.valid = false;
                forbidden = true;
            }
        }
        if forbidden {
            return Err(CuError::STREAM_CAPTURE_UNSUPPORTED);
        }
        Ok(())
    }

    /// For synchronous work, which uses the legacy stream and is unsafe during captures.
    pub fn synchronous_call(&mut self) -> Answer {
        if self.captures.live.is_empty() {
            return Ok(());
        }
        let at = self.bound()?;
        self.check_legacy(On::LEGACY, at, true)?;
        self.unsafe_call()
    }

    /// For the synchronisation of a whole context.
    pub fn context_call(&mut self, context: usize) -> Answer {
        let mut captures = self.captures.live.values_mut();
        if let Some(capture) = captures.find(|capture| capture.context == context) {
            capture.valid = false;
            return Err(CuError::STREAM_CAPTURE_UNSUPPORTED);
        }
        self.unsafe_call()
    }

    /// For queries of an event: an event that was recorded in a capture cannot be queried.
    pub fn event_call(&mut self, event: usize) -> Answer {
        let found = self.events.get(event).ok_or(CuError::INVALID_HANDLE)?;
        let capture = found.captured.as_ref().map(|captured| captured.capture);
        if let Some(id) = capture.filter(|id| self.captures.live.contains_key(id)) {
            self.captures.invalidate(id);
            return Err(CuError::CAPTURED_EVENT);
        }
        self.unsafe_call()
    }

    /// `cuEventRecord` in a capture. Returns whether the stream is captured.
    pub fn record_captured(&mut self, on: On, event: usize, flags: u32) -> Answer<bool> {
        self.events.get(event).ok_or(CuError::INVALID_HANDLE)?;
        if flags & EXTERNAL != 0 {
            return self.captured_as(on, Work::Record(event));
        }
        let at = self.stream_at(on)?;
        self.check_legacy(on, at, true)?;
        let point = match self.captures.active(on)? {
            Some((id, capture)) => Some(Captured {
                capture: id,
                nodes: capture.tips.get(&on).cloned().unwrap_or_default().nodes,
            }),
            None => None,
        };
        let found = self.events.get_mut(event);
        let found = found.ok_or(CuError::INVALID_HANDLE)?;
        let captured = point.is_some();
        found.captured = point;
        if captured {
            found.recorded = None;
        }
        Ok(captured)
    }

    /// `cuStreamWaitEvent`: joins a capture, or makes a captured stream wait for another. Outside
    /// of captures the event has already happened.
    pub fn wait_captured(&mut self, on: On, event: usize, flags: u32) -> Answer {
        let found = self.events.get(event).ok_or(CuError::INVALID_HANDLE)?;
        let point = found.captured.clone();
        let recorded = found.recorded.is_some();
        if flags & EXTERNAL != 0 {
            return self.captured_as(on, Work::Wait(event)).map(drop);
        }
        let at = self.stream_at(on)?;
        self.check_legacy(on, at, true)?;
        let point = point.filter(|point| self.captures.live.contains_key(&point.capture));
        let mine = self.captures.active(on)?.map(|(id, _)| id);
        let Some(point) = point else {
            if let Some(mine) = mine.filter(|_| recorded) {
                self.captures.invalidate(mine);
                return Err(CuError::STREAM_CAPTURE_ISOLATION);
            }
            return Ok(());
        };
        let forbidden = match mine {
            Some(mine) if mine != point.capture => Some(CuError::STREAM_CAPTURE_MERGE),
            None if on == On::LEGACY => Some(CuError::STREAM_CAPTURE_IMPLICIT),
            _ => None,
        };
        if let Some(code) = forbidden {
            self.captures.invalidate(point.capture);
            self.captures.invalidate(mine.unwrap_or_default());
            return Err(code);
        }
        match self.captures.live.get_mut(&point.capture) {
            Some(capture) if capture.valid => {
                capture.tips.entry(on).or_default().join(&point.nodes);
                Ok(())
            }
            _ => Err(CuError::STREAM_CAPTURE_INVALIDATED),
        }
    }

    /// `cuStreamUpdateCaptureDependencies`: adds to the tip, or replaces it.
    pub fn update_tip(&mut self, on: On, nodes: Vec<usize>, replace: bool) -> Answer {
        self.stream_at(on)?;
        let (_, capture, _) = self.captures.of(on).ok_or(CuError::ILLEGAL_STATE)?;
        self.graphs.check_nodes(capture.graph, &nodes)?;
        let active = self.captures.active(on)?;
        let (_, capture) = active.ok_or(CuError::ILLEGAL_STATE)?;
        let tip = capture.tips.entry(on).or_default();
        if replace {
            *tip = Tip::of(nodes);
        } else {
            tip.join(&nodes);
        }
        Ok(())
    }

    /// A stream is destroyed: the capture that it is in is invalidated, and ends if it began there.
    pub fn forget_stream(&mut self, on: On) -> Ended {
        let Some(id) = self.captures.id_of(on) else {
            return Ended::default();
        };
        self.captures.invalidate(id);
        let mut over = None;
        if let Some(capture) = self.captures.live.get_mut(&id) {
            capture.tips.remove(&on);
            over = (capture.origin == on).then_some((capture.graph, capture.into_existing));
        }
        if let Some((graph, existing)) = over {
            self.captures.live.remove(&id);
            if !existing {
                return self.destroy_graph(graph).unwrap_or_default();
            }
        }
        Ended::default()
    }
}
