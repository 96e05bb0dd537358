use gpumem_capture::{
    Definition, DeviceOrdinal, Event, EventKind, Level, Record, Seq, StackId, ThreadId,
};

use super::*;
use crate::replay::{At, Figure, Replay, StackKey};

#[derive(Default)]
struct Play {
    replay: Replay,
    seq: u64,
}

impl Play {
    fn feed(&mut self, event: Event) {
        self.seq += 1;
        self.replay.feed(Record::Event(Seq(self.seq), &event));
    }

    /// A mark of thread 1.
    fn mark(&mut self, kind: EventKind, aux: u64) {
        let thread = ThreadId(1);
        self.feed(Event {
            kind,
            aux,
            thread,
            ..Event::default()
        });
    }

    /// The phase of each block by its bytes.
    fn phases(&self) -> Vec<(u64, Option<Phase>)> {
        let figures = self
            .replay
            .figures(DeviceOrdinal(0), Level::TENSOR, At::End);
        let of = |(key, figure): (StackKey, Figure)| (figure.bytes, phase_of(&self.replay, key));
        let mut out: Vec<_> = figures.into_iter().map(of).collect();
        out.sort_unstable();
        out
    }

    /// An allocation of `bytes` by a thread with this Python stack.
    fn on_thread(&mut self, thread: u32, bytes: u64, stack: u32) {
        self.feed(Event {
            kind: EventKind::ALLOC,
            level: Level::TENSOR,
            ptr: 0x1000 * bytes,
            bytes,
            thread: ThreadId(thread),
            py_stack: StackId(stack),
            ..Event::default()
        });
    }
}

#[test]
fn a_phase_is_the_threads_own_then_the_nodes_then_the_forward() {
    let mut play = Play::default();
    play.replay.names.define(&Definition::Backward {
        id: StackId(9),
        lost: true,
        forward: StackId::NONE,
        own: StackId::NONE,
        newer: 0,
        node: "1A".into(),
    });
    play.replay.names.define(&Definition::PyStack {
        id: StackId(5),
        truncated: false,
        modules: Vec::new(),
        frames: Vec::new(),
    });
    play.on_thread(7, 8, 6);
    play.on_thread(1, 1, 5);
    play.on_thread(2, 2, 9);
    let node = Some(Phase::Backward);
    assert_eq!(play.phases(), [(1, None), (2, node), (8, None)]);
    play.mark(EventKind::PHASE_BEGIN, 2);
    play.on_thread(1, 3, 5);
    play.on_thread(1, 4, 9);
    play.mark(EventKind::PHASE_BEGIN, 1);
    play.on_thread(1, 5, 6);
    play.on_thread(3, 6, 0);
    play.mark(EventKind::PHASE_END, 1);
    play.mark(EventKind::PHASE_END, 2);
    play.mark(EventKind::PHASE_BEGIN, 3);
    play.on_thread(1, 7, 7);
    let expected = [
        (1, Some(Phase::Forward)),
        (2, Some(Phase::Backward)),
        (5, Some(Phase::Backward)),
        (6, None),
        (7, Some(Phase::ZeroGrad)),
        (8, None),
    ];
    let mut phases = play.phases();
    phases.retain(|(bytes, _)| ![3, 4].contains(bytes));
    assert_eq!(phases, expected);
    let optimizer = play.phases().into_iter();
    let optimizer: Vec<_> = optimizer
        .filter(|(bytes, _)| [3, 4].contains(bytes))
        .collect();
    let own = Some(Phase::Optimizer);
    assert_eq!(optimizer, [(3, own), (4, own)], "its own phase comes first");
}
