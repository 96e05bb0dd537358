use gpumem_capture::*;
use proptest::prelude::*;

use crate::support::*;

/// Writes the items, letting the drain take what was written before each of the cuts, and reads them
/// back.
fn check(items: &[Item], drained: usize) -> Result<(), TestCaseError> {
    let folder = in_memory();
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, &patient(1024)).unwrap();
    let mut wanted = Vec::new();
    let (first, rest) = items.split_at(drained);
    let mut put = |item: &Item| wanted.push((write(writer, item).unwrap(), shown(item)));
    if !first.is_empty() {
        with_drain(writer, || first.iter().for_each(&mut put));
    }
    rest.iter().for_each(&mut put);
    writer.finish();
    let (records, integrity) = read(&path);
    prop_assert!(integrity.is_whole(), "{integrity:?}");
    prop_assert_eq!(integrity.in_flight, 0);
    prop_assert_eq!(integrity.pages > 0, drained > 0);
    let counters = Reader::open(&path).unwrap().counters();
    prop_assert_eq!(counters.rows, replay(&records));
    let mut names = Vec::new();
    let mut reader = Reader::open(&path).unwrap();
    reader
        .read_names(&mut |record| names.push(own(record)))
        .unwrap();
    let defined = records
        .iter()
        .filter(|(_, item)| matches!(item, Item::Definition(_)));
    prop_assert!(defined.eq(&names));
    let mut sites = Vec::new();
    reader
        .read_sites(&mut |record| sites.push(own(record)))
        .unwrap();
    let defined = sites
        .iter()
        .filter(|(_, item)| matches!(item, Item::Definition(_)));
    prop_assert!(defined.eq(&names));
    let (found, all) = (sites_of(&sites), sites_of(&records));
    prop_assert!(found.iter().all(|site| all.contains(site)));
    prop_assert!(all.iter().all(|site| found.contains(site)));
    let last = |records: &[Read]| records.iter().map(|(seq, _)| *seq).max();
    prop_assert!(last(&sites) >= last(&records).filter(|_| !all.is_empty()));
    prop_assert_eq!(records, wanted);
    Ok(())
}

/// The item as it is read: text is clean.
fn shown(item: &Item) -> Item {
    match item {
        Item::Definition(of) => {
            let read = Definition::from_payload(of.kind(), &of.payload());
            Item::Definition(read.expect("a whole payload"))
        }
        other => other.clone(),
    }
}

/// What the events have beside what differs from one to the next.
fn sites_of(records: &[Read]) -> Vec<Event> {
    let site = |event: &Event| Event {
        time: Nanos(0),
        ptr: 0,
        bytes: 0,
        aux: 0,
        slack: 0,
        ..*event
    };
    events(records).map(site).collect()
}

fn items(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<Item>> {
    prop::collection::vec(item(), count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn through_the_ring_only(items in items(0..80)) {
        check(&items, 0)?;
    }

    #[test]
    fn through_pages_only(items in items(1..4000)) {
        check(&items, items.len())?;
    }

    #[test]
    fn through_both(items in items(1..1000), rest in 1..40_usize) {
        check(&items, items.len().saturating_sub(rest))?;
    }
}

#[test]
fn a_training_takes_few_bytes_and_keeps_its_order() {
    let folder = in_memory();
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, &patient(65_536)).unwrap();
    let items = training(200_000);
    with_drain(writer, || {
        items
            .iter()
            .for_each(|item| assert!(write(writer, item).is_ok()))
    });
    let (records, integrity) = read(&path);
    assert!(integrity.is_whole(), "{integrity:?}");
    assert!(records.iter().map(|(_, item)| item).eq(&items));
    let head = Options::default().ring_slots as u64 * 64 + 24_576;
    let pages = std::fs::metadata(&path).unwrap().len() - head;
    assert!(
        pages <= 4 * integrity.events,
        "{pages} bytes for {} events",
        integrity.events
    );
}

#[test]
fn threads_are_ordered_as_their_counters_are() {
    let folder = in_memory();
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, &patient(4096)).unwrap();
    with_drain(writer, || {
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                scope.spawn(move || {
                    for n in 0..30_000_u64 {
                        let event = Event {
                            time: writer.now(),
                            ptr: n,
                            bytes: n % 97 + 1,
                            thread: ThreadId(thread),
                            kind: if n % 3 == 2 {
                                EventKind::FREE
                            } else {
                                EventKind::ALLOC
                            },
                            level: Level((n % 2) as u8),
                            ..Event::default()
                        };
                        writer.event(&event).unwrap();
                        if n % 500 == 0 {
                            let text = n.to_string().repeat(40);
                            writer
                                .definition(
                                    DefKind::NOTE,
                                    &[&(text.len() as u32).to_le_bytes(), text.as_bytes()],
                                )
                                .unwrap();
                        }
                    }
                });
            }
        });
    });
    let (records, integrity) = read(&path);
    assert!(
        integrity.is_whole() && integrity.in_flight == 0,
        "{integrity:?}"
    );
    assert_eq!((integrity.events, integrity.definitions), (120_000, 240));
    // Live and peak depend on the order: a replay computes the same values as the counters.
    assert_eq!(
        Reader::open(&path).unwrap().counters().rows,
        replay(&records)
    );
    let mut next = [0; 4];
    for event in events(&records) {
        let next = &mut next[event.thread.0 as usize];
        assert_eq!(event.ptr, *next);
        *next += 1;
    }
}
