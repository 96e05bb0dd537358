//! Every interleaving of small programs, under the memory model:
//! `RUSTFLAGS="--cfg loom" cargo test -p gpumem-capture --lib --release model`
//!
//! The consumer is a separate thread: loom runs the first thread without interruption up to its
//! first join. Loom gives stores of one atomic the order in which it ran them, so it cannot check
//! whether the zeroing is published before the slot is reused. It checks everything else.

use loom::sync::Arc;
use loom::thread;

use super::*;

const NONCE: u64 = 0x5eed;

struct Memory {
    indexes: Indexes,
    slots: Vec<Slot>,
}

impl Memory {
    fn new(slots: usize) -> Arc<Self> {
        Self::backed(slots, ALL)
    }

    fn backed(slots: usize, backed: u64) -> Arc<Self> {
        let slot = |_| Slot(core::array::from_fn(|_| AtomicU64::new(0)));
        Arc::new(Self {
            indexes: Indexes::new(slots as u64, backed),
            slots: (0..slots).map(slot).collect(),
        })
    }

    fn ring(&self) -> Ring<'_> {
        Ring::new(&self.indexes, &self.slots, Checks::new(NONCE))
    }
}

fn words(value: u64) -> [u64; 8] {
    [0, value, value, value, value, value, value, 1 << 32]
}

/// Takes one record if there is one; the consumer's whole protocol.
fn take(ring: &Ring<'_>) -> Option<u64> {
    let seq = ring.tail();
    if seq == ring.head() {
        return None;
    }
    match ring.scan(seq) {
        Scan::Record(count, words) => {
            ring.release(seq + count);
            Some(words[1])
        }
        Scan::Pending => None,
        Scan::Damaged => panic!("a record was torn"),
    }
}

fn write(memory: &Memory, value: u64) {
    let ring = memory.ring();
    if let Some(seq) = ring.reserve(1) {
        ring.commit(seq, &words(value));
    }
}

/// Takes the available records, with this many attempts.
fn consume(memory: &Memory, looks: usize) -> Vec<u64> {
    (0..looks).filter_map(|_| take(&memory.ring())).collect()
}

fn rest(memory: &Memory) -> Vec<u64> {
    core::iter::from_fn(|| take(&memory.ring())).collect()
}

#[test]
fn a_producer_and_the_consumer() {
    loom::model(|| {
        let memory = Memory::new(2);
        let other = memory.clone();
        let consumer = thread::spawn(move || consume(&other, 1));
        write(&memory, 1);
        let mut taken = consumer.join().expect("no panic");
        taken.extend(rest(&memory));
        assert_eq!(taken, [1]);
    });
}

#[test]
fn two_producers_and_the_consumer() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let memory = Memory::new(2);
        let (one, other) = (memory.clone(), memory.clone());
        let producer = thread::spawn(move || write(&one, 1));
        let consumer = thread::spawn(move || consume(&other, 1));
        write(&memory, 2);
        producer.join().expect("no panic");
        let mut taken = consumer.join().expect("no panic");
        taken.extend(rest(&memory));
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}

#[test]
fn a_slot_is_used_again_only_when_it_is_free() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let memory = Memory::new(1);
        let other = memory.clone();
        let consumer = thread::spawn(move || consume(&other, 2));
        let ring = memory.ring();
        let mut written = Vec::new();
        for value in 1..=2 {
            if let Some(seq) = ring.reserve(1) {
                ring.commit(seq, &words(value));
                written.push(value);
            }
        }
        let mut taken = consumer.join().expect("no panic");
        taken.extend(rest(&memory));
        assert_eq!(taken, written);
    });
}

/// A thread gives the ring memory while the consumer frees slots: the end of what may be reserved follows from both.
#[test]
fn growth_and_release_are_not_missed_by_each_other() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let memory = Memory::backed(2, 1);
        write(&memory, 1);
        let (one, other) = (memory.clone(), memory.clone());
        let grower = thread::spawn(move || one.ring().back(2));
        let consumer = thread::spawn(move || consume(&other, 1));
        grower.join().expect("no panic");
        assert_eq!(consumer.join().expect("no panic"), [1]);
        let ring = memory.ring();
        assert_eq!((ring.reserve(2), ring.reserve(1)), (Some(1), None));
    });
}

#[test]
fn a_payload_is_whole_or_not_there() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let memory = Memory::new(2);
        let other = memory.clone();
        let look = |memory: &Memory| {
            let ring = memory.ring();
            if ring.head() == 0 {
                return false;
            }
            match ring.scan(0) {
                Scan::Record(2, words) => {
                    let mut payload = Vec::new();
                    ring.copy_payload(0, &words, &mut payload);
                    assert_eq!(payload, b"0123456789");
                    true
                }
                Scan::Pending => false,
                other => panic!("{other:?}"),
            }
        };
        let consumer = thread::spawn(move || look(&other));
        let ring = memory.ring();
        let seq = ring.reserve(2).expect("an empty ring");
        let words = slot::definition_words(crate::DefKind(200), 10, 2);
        ring.commit_with_payload(seq, &words, &[b"01234", b"56789"]);
        consumer.join().expect("no panic");
        assert!(look(&memory));
    });
}
