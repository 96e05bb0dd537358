use proptest::prelude::*;

use super::*;
use crate::{DefKind, Event, Nanos, StackId};

#[derive(Clone, Debug, PartialEq)]
enum Item {
    Event(Event),
    Definition(u8, Vec<u8>),
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        4 => crate::tests::event().prop_map(Item::Event),
        1 => (128_u8.., prop::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(kind, payload)| Item::Definition(kind, payload)),
    ]
}

fn build(first: u64, items: &[Item]) -> Vec<u8> {
    let mut builder = Builder::new(7);
    builder.start(first);
    for item in items {
        match item {
            Item::Event(event) => builder.event(event),
            Item::Definition(kind, payload) => builder.definition(DefKind(*kind), payload),
        }
    }
    builder.finish().to_vec()
}

fn header(page: &[u8]) -> Result<Header, &'static str> {
    Header::decode(page[..HEADER_BYTES].try_into().unwrap(), 7)
}

fn read(page: &[u8]) -> Result<Vec<(u64, Item)>, &'static str> {
    let header = header(page)?;
    let mut decoded = Decoded::default();
    Decoder::new()
        .unwrap()
        .decode(&header, &page[HEADER_BYTES..], &mut decoded)?;
    let mut items = Vec::new();
    decoded.each(&header, |seq, record| {
        items.push((
            seq,
            match record {
                Ok(event) => Item::Event(*event),
                Err((kind, payload)) => Item::Definition(kind.0, payload.to_vec()),
            },
        ));
    });
    Ok(items)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_built_is_decoded(
        first in 0..u64::MAX / 2,
        items in prop::collection::vec(item(), 1..400),
    ) {
        let page = build(first, &items);
        let mut seq = first;
        let mut wanted = Vec::new();
        for item in &items {
            wanted.push((seq, item.clone()));
            seq += match item {
                Item::Event(_) => 1,
                Item::Definition(_, payload) => crate::slot::slots_for(payload.len() as u64),
            };
        }
        prop_assert_eq!(header(&page).unwrap().next, seq);
        prop_assert_eq!(read(&page).unwrap(), wanted);
    }

    #[test]
    fn columns_that_were_made_up_never_panic(
        columns in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), COLUMNS),
        events in 0..80_u32,
        definitions in 0..4_u32,
        slots in 1..100_u64,
    ) {
        let payload = columns.concat();
        let mut header = Header {
            nonce: 7,
            first: 5,
            next: 5 + slots,
            events,
            definitions,
            payload_bytes: payload.len() as u32,
            payload_crc: crc32fast::hash(&payload),
            ..Header::default()
        };
        for (lengths, column) in header.columns.iter_mut().zip(&columns) {
            *lengths = (column.len() as u32, column.len() as u32);
        }
        let page = [&header.encode()[..], &payload].concat();
        if let Ok(items) = read(&page) {
            prop_assert_eq!(items.len() as u32, events + definitions);
        }
    }
}

#[test]
fn more_than_256_sites_and_pointers() {
    let items: Vec<Item> = (0..1000_u32)
        .map(|n| {
            Item::Event(Event {
                py_stack: StackId(n % 300),
                ptr: u64::from(n * 7919 % 700) << 9,
                time: Nanos(u64::from(n) << 8),
                ..Event::default()
            })
        })
        .collect();
    let read: Vec<Item> = read(&build(0, &items))
        .unwrap()
        .into_iter()
        .map(|(_, i)| i)
        .collect();
    assert_eq!(read, items);
}

#[test]
fn a_header_that_asks_for_too_much_is_refused() {
    let mut asks = Header {
        nonce: 7,
        next: 1,
        events: 1,
        ..Header::default()
    };
    asks.columns[0] = (RAW_LIMIT as u32 + 1, 0);
    assert_eq!(
        header(&asks.encode()),
        Err("the page's header contradicts itself")
    );
    let crowded = Header {
        nonce: 7,
        next: 1,
        events: u32::MAX,
        ..Header::default()
    };
    assert_eq!(
        header(&crowded.encode()),
        Err("the page's header contradicts itself")
    );
}

#[test]
fn every_flipped_bit_is_noticed() {
    let items: Vec<Item> = (0..40).map(|n| Item::Definition(139, vec![n; 9])).collect();
    let good = build(3, &items);
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&bad).is_err(), "bit {bit}");
    }
}
