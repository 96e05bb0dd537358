//! What the tests share: generated streams, and captures read back.

use std::path::Path;
use std::time::Duration;

use gpumem_capture::*;
use proptest::prelude::*;

/// Only ends a test that hangs.
pub const AT_MOST: Duration = Duration::from_secs(300);

/// Options for a test that expects no loss, however slow the disk is and however many threads want a processor.
pub fn patient(slots: u32) -> Options {
    Options::default().ring_slots(slots).stall(AT_MOST)
}

/// A folder in memory: a test that changes a file thousands of times does not wait for a disk.
pub fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// The capture with one bit of its header changed, and a valid checksum.
pub fn with_another_header(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    for copy in [0, 2048] {
        bytes[copy + at] ^= 1;
        let crc = crc32fast::hash(&bytes[copy..copy + 508]);
        bytes[copy + 508..copy + 512].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// A record as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Event(Event),
    Definition(Definition),
}

/// A record as read, with its sequence number.
pub type Read = (Seq, Item);

pub fn write(writer: &Writer, item: &Item) -> Result<Seq, Lost> {
    match item {
        Item::Event(event) => writer.event(event),
        Item::Definition(definition) => {
            let payload = definition.payload();
            let (first, rest) = payload.split_at(payload.len() / 3);
            writer.definition(definition.kind(), &[first, rest])
        }
    }
}

/// Opens and reads a capture, and checks the invariants.
pub fn read(path: &Path) -> (Vec<Read>, Integrity) {
    let mut reader = Reader::open(path).unwrap();
    let mut records = Vec::new();
    let integrity = reader
        .read(&mut |record| records.push(own(record)))
        .unwrap();
    let mut last = None;
    for (seq, _) in &records {
        assert!(Some(*seq) > last, "{seq:?} after {last:?}");
        last = Some(*seq);
    }
    assert_eq!(
        integrity.events + integrity.definitions,
        records.len() as u64
    );
    assert!(reader.progress().position() >= reader.progress().total());
    (records, integrity)
}

pub fn own(record: Record<'_>) -> Read {
    match record {
        Record::Event(seq, event) => (seq, Item::Event(*event)),
        Record::Definition(seq, definition) => (seq, Item::Definition(definition.clone())),
        Record::State(..) => panic!("a state in a capture that is not bounded"),
    }
}

pub fn events(records: &[Read]) -> impl Iterator<Item = &Event> {
    records.iter().filter_map(|(_, item)| match item {
        Item::Event(event) => Some(event),
        Item::Definition(_) => None,
    })
}

/// The counters computed by a replay of the events.
pub fn replay(records: &[Read]) -> Vec<(DeviceOrdinal, Level, CounterValues)> {
    let mut rows = std::collections::BTreeMap::<(u8, u8), CounterValues>::new();
    for event in events(records).filter(|event| CounterValues::counts(event)) {
        rows.entry((event.device.0, event.level.0))
            .or_default()
            .apply(event);
    }
    rows.into_iter()
        .map(|((device, level), values)| (DeviceOrdinal(device), Level(level), values))
        .collect()
}

/// Any event, often similar to others.
pub fn event() -> impl Strategy<Value = Event> {
    let number = || prop_oneof![Just(0), 0..1000_u64, any::<u64>()];
    let stack = || prop_oneof![0..5_u32, any::<u32>()].prop_map(StackId);
    (
        (number(), number(), 0..1_u64 << 40, number()),
        (
            stack(),
            stack(),
            any::<u32>(),
            prop_oneof![1..4_u8, 0..128_u8],
        ),
        (
            (0..4_u8, 0..3_u8, any::<u16>(), 0..4_u16),
            prop_oneof![Just(0), any::<u8>()],
            prop_oneof![Just(0), 0..1000_u32, any::<u32>()],
        ),
    )
        .prop_map(
            |((time, ptr, bytes, aux), (py_stack, native_stack, thread, kind), rest)| {
                let ((level, device, api, flags), placement, slack) = rest;
                Event {
                    time: Nanos(time),
                    ptr,
                    bytes,
                    aux,
                    py_stack,
                    native_stack,
                    thread: ThreadId(thread),
                    kind: EventKind(kind),
                    level: Level(level),
                    device: DeviceOrdinal(device),
                    api: ApiId(api),
                    flags: EventFlags(flags),
                    placement: PlacementId(placement),
                    slack,
                }
            },
        )
}

/// Any definition that fits a ring of 1024 slots.
pub fn definition() -> impl Strategy<Value = Definition> {
    let text = || prop::collection::vec(any::<char>(), 0..40).prop_map(String::from_iter);
    prop_oneof![
        (any::<u16>(), text()).prop_map(|(id, name)| Definition::Api {
            id: ApiId(id),
            name
        }),
        (
            any::<u32>(),
            any::<bool>(),
            prop::collection::vec(any::<u64>(), 0..200)
        )
            .prop_map(|(id, truncated, frames)| Definition::NativeStack {
                id: StackId(id),
                truncated,
                frames
            }),
        (text(), text()).prop_map(|(key, value)| Definition::Process { key, value }),
        (any::<[u32; 4]>(), any::<bool>(), text()).prop_map(|(numbers, lost, node)| {
            let [id, forward, own, newer] = numbers;
            Definition::Backward {
                id: StackId(id),
                lost,
                forward: StackId(forward),
                own: StackId(own),
                newer,
                node,
            }
        }),
        (any::<u32>(), text()).prop_map(|(id, name)| Definition::Range { id, name }),
        (any::<u32>(), any::<u64>(), text()).prop_map(|(id, object, class)| Definition::NnModule {
            id: NnModuleId(id),
            object,
            class,
        }),
        (any::<u32>(), text()).prop_map(|(id, name)| Definition::NnModuleName {
            id: NnModuleId(id),
            name,
        }),
        (
            any::<u32>(),
            any::<u64>(),
            prop::collection::vec((text(), text(), any::<u32>()), 0..3)
        )
            .prop_map(|(module, address, functions)| Definition::Symbol {
                module: ModuleId(module),
                address,
                functions: functions
                    .into_iter()
                    .map(|(name, file, line)| Function { name, file, line })
                    .collect(),
            }),
        // Kinds of later versions.
        (
            DefKind::PLACEMENT.0 + 1..=255,
            prop::collection::vec(any::<u8>(), 0..500)
        )
            .prop_map(|(kind, payload)| {
                Definition::Unknown {
                    kind: DefKind(kind),
                    payload,
                }
            }),
    ]
}

pub fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        9 => event().prop_map(Item::Event),
        1 => definition().prop_map(Item::Definition),
    ]
}

/// Events of a training: a repeating period of allocations and frees.
pub fn training(count: usize) -> Vec<Item> {
    let mut items = vec![Item::Definition(Definition::Api {
        id: ApiId(1),
        name: "pytorch".to_owned(),
    })];
    let mut time = 0;
    for n in 0..count {
        let step = (n % 746) as u64;
        time += 4000 + step * 7919 % 3001;
        let slot = step / 2;
        items.push(Item::Event(Event {
            time: Nanos(time),
            ptr: 0x7f12_0000_0000 + slot * 0x20_0000,
            bytes: (slot % 37 + 1) * 512,
            aux: 1 << 30,
            py_stack: StackId(slot as u32 % 90 + 1),
            native_stack: StackId(slot as u32 % 120 + 1),
            thread: ThreadId(4242),
            kind: if step.is_multiple_of(2) {
                EventKind::ALLOC
            } else {
                EventKind::FREE
            },
            api: ApiId(1),
            ..Event::default()
        }));
    }
    items
}

/// Runs the drain until the closure returns.
pub fn with_drain<T>(writer: &'static Writer, body: impl FnOnce() -> T) -> T {
    let drain = std::thread::spawn(|| writer.drain());
    let result = body();
    writer.stop_drain();
    drain.join().unwrap();
    result
}
