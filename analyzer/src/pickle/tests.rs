//! Written pickles can be read; pickles that would execute code are errors; no input breaks the reader.

use proptest::prelude::*;

use super::*;

const NAMES: &[&str] = &["a", "list", "missing"];
const A: usize = 0;
const LIST: usize = 1;

fn root(bytes: &[u8]) -> Result<Value, PickleError> {
    read(bytes, NAMES).map(|pickle| pickle.root())
}

/// Adds the protocol and the end.
fn framed(opcodes: &[u8]) -> Vec<u8> {
    [&[0x80, 4], opcodes, b"."].concat()
}

fn written(write: impl FnOnce(&mut PickleWriter<&mut Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = PickleWriter::new(&mut bytes).expect("memory");
    write(&mut writer);
    writer.finish().expect("memory");
    bytes
}

#[test]
fn numbers_survive() {
    for number in [
        0,
        255,
        256,
        65_535,
        65_536,
        0x7fff_ffff,
        0x8000_0000,
        0xff_ffff_ffff,
        0x7f_ffff_ffff,
        140_166_201_081_856,
        i64::MAX as u64,
    ] {
        let bytes = written(|to| to.int(number).expect("memory"));
        assert_eq!(root(&bytes), Ok(Value::Int(number as i64)), "{number}");
    }
    let beyond = written(|to| to.int(u64::MAX).expect("memory"));
    assert_eq!(root(&beyond), Ok(Value::Int(i64::MAX)));
    for (opcodes, value) in [
        (&b"J\xff\xff\xff\xff"[..], Value::Int(-1)),
        (b"\x8a\x02\x00\x80", Value::Int(-32_768)),
        (b"\x8a\x00", Value::Int(0)),
        (b"\x8a\x09\0\0\0\0\0\0\0\0\x01", Value::Other),
        (b"G\x3f\xf8\0\0\0\0\0\0", Value::Float(1.5)),
        (b"K\x01K\x02\x86", Value::Pair(1, 2)),
        (b"(K\x01K\x02t", Value::Pair(1, 2)),
        (b"K\x01K\x02K\x03\x87", Value::Other),
        (b"J\xff\xff\xff\xffK\x02\x86", Value::Other),
        (b"C\x02ab", Value::Other),
        (b"N", Value::None),
    ] {
        assert_eq!(root(&framed(opcodes)), Ok(value), "{opcodes:?}");
    }
}

#[test]
fn lists_of_any_length_are_written_in_pieces() {
    for length in [0, 1, 999, 1000, 1001, 2500] {
        let bytes = written(|to| {
            let mut list = to.begin_list().expect("memory");
            for number in 0..length {
                to.item(&mut list).expect("memory");
                to.int(number).expect("memory");
            }
            to.end_list(list).expect("memory");
        });
        let pickle = read(&bytes, NAMES).expect("a pickle");
        let Value::List(list) = pickle.root() else {
            panic!("{:?}", pickle.root());
        };
        let numbers: Vec<Value> = (0..length)
            .map(|number| Value::Int(number as i64))
            .collect();
        assert_eq!(pickle.list(list), numbers);
    }
}

#[test]
fn shared_values_are_one() {
    let long = "é".repeat(300);
    let bytes = written(|to| {
        let mut list = to.begin_list().expect("memory");
        to.item(&mut list).expect("memory");
        to.begin_dict().expect("memory");
        to.word("a").expect("memory");
        to.text(&long).expect("memory");
        to.word("list").expect("memory");
        let empty = to.begin_list().expect("memory");
        to.end_list(empty).expect("memory");
        to.end_dict().expect("memory");
        let shared = to.remember().expect("memory");
        for _ in 0..300 {
            to.item(&mut list).expect("memory");
            to.again(shared).expect("memory");
        }
        to.end_list(list).expect("memory");
    });
    let pickle = read(&bytes, NAMES).expect("a pickle");
    let Value::List(list) = pickle.root() else {
        panic!("{:?}", pickle.root());
    };
    let list = pickle.list(list);
    assert_eq!(list.len(), 301);
    assert!(list.iter().all(|value| *value == list[0]), "one dict");
    let Value::Dict(dict) = list[0] else {
        panic!("{:?}", list[0]);
    };
    let Some(Value::Text(text)) = pickle.get(dict, A) else {
        panic!("no text");
    };
    assert_eq!(pickle.text(text), long);
    assert!(matches!(pickle.get(dict, LIST), Some(Value::List(_))));
    assert_eq!(pickle.get(dict, 2), None);
}

#[test]
fn dicts_may_be_filled_in_steps_and_the_last_of_equal_keys_counts() {
    for opcodes in [
        &b"}\x8c\x01aK\x01s\x8c\x01bK\x02s\x8c\x01aK\x03s"[..],
        b"}(\x8c\x01aK\x01\x8c\x01bK\x02u(\x8c\x01aK\x03u",
        b"}(\x8c\x01aK\x01\x8c\x01aK\x03u(u",
        b"(\x8c\x01bK\x01\x8c\x01aK\x03d",
    ] {
        let bytes = framed(opcodes);
        let pickle = read(&bytes, NAMES).expect("a pickle");
        let Value::Dict(dict) = pickle.root() else {
            panic!("{:?}", pickle.root());
        };
        assert_eq!(pickle.get(dict, A), Some(Value::Int(3)), "{opcodes:?}");
    }
}

#[test]
fn what_would_run_anything_is_refused_with_its_place() {
    for (opcodes, opcode) in [
        (&b"cos\nsystem\n(X\x02\0\0\0idtR"[..], "GLOBAL"),
        (b"\x8c\x02os\x8c\x06system\x93", "STACK_GLOBAL"),
        (b"(ios\nsystem\n", "INST"),
        (b"NNR", "REDUCE"),
        (b"NNb", "BUILD"),
        (b"(Nos\n", "OBJ"),
        (b"NN\x81", "NEWOBJ"),
        (b"NNN\x92", "NEWOBJ_EX"),
        (b"NQ", "BINPERSID"),
        (b"\x82\x01", "EXT1"),
    ] {
        let Err(PickleError::Runs { offset, opcode: of }) = root(&framed(opcodes)) else {
            panic!("{opcode} was taken");
        };
        assert_eq!(of, opcode);
        let code = framed(opcodes)[offset];
        assert!(
            !code.is_ascii_digit() && offset >= 2,
            "{opcode} at {offset}"
        );
    }
    let said = root(&framed(b"NNR")).expect_err("refused").to_string();
    assert!(said.starts_with("byte 4: opcode REDUCE"), "{said}");
    assert!(
        said.contains("_dump_snapshot()") && !said.contains('\n'),
        "{said}"
    );
}

#[test]
fn what_is_no_pickle_is_told_from_what_is_cut_off() {
    for (bytes, says) in [
        (&b""[..], "the file is empty"),
        (b"PK\x03\x04", "torch.save()"),
        (b"\x1f\x8b\x08", "gunzip"),
        (
            b"{\"segments\": []}",
            "first bytes are not those of a pickle",
        ),
        (b"\x80\x01N.", "another protocol"),
        (b"\x80\x06N.", "another protocol"),
        (b"\x80\x04", "byte 2: the file ends"),
        (b"\x80\x04X\xff\xff\xff\x7fab", "byte 2: the file ends"),
        (
            b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffab",
            "the file ends",
        ),
        (b"\x80\x04.", "removes more values"),
        (b"\x80\x04Na.", "removes more values"),
        (b"\x80\x04NNa.", "appends to a value that is not a list"),
        (b"\x80\x04N(Ne.", "appends to a value that is not a list"),
        (b"\x80\x04(Ne.", "appends to a value that is not a list"),
        (b"\x80\x04e.", "no mark"),
        (b"\x80\x04}(K\x01K\x02u.", "a key of a dict is not a string"),
        (b"\x80\x04}(\x8c\x01au.", "a key has no value"),
        (b"\x80\x04h\x07.", "a memo entry that does not exist"),
        (b"\x80\x04](N0.", "opcode 0x30"),
    ] {
        let said = root(bytes).expect_err("refused").to_string();
        assert!(said.contains(says), "{bytes:?}: {said}");
    }
    assert!(root(&[2, 3, 4, 5].map(|protocol| [0x80, protocol, b'N', b'.'])[1]).is_ok());
}

#[test]
fn memory_is_in_proportion_to_the_file() {
    // Large numbers in the memo, a list that contains itself, and a dict that grows by one key at a time.
    let far = framed(b"]r\xff\xff\xff\xff(j\xff\xff\xff\xffe");
    let pickle = read(&far, NAMES).expect("a pickle");
    let Value::List(list) = pickle.root() else {
        panic!("{:?}", pickle.root());
    };
    assert_eq!(pickle.list(list), [Value::List(list)]);
    let grows = [&b"}"[..], &b"\x8c\x01aNs".repeat(100)].concat();
    let said = root(&framed(&grows)).expect_err("refused").to_string();
    assert!(said.contains("filled in parts"), "{said}");
    let deep = [&b"](".repeat(1_000_000)[..], b"N"].concat();
    assert_eq!(root(&framed(&deep)), Ok(Value::None));
}

/// A pickle with all kinds of values in snapshots.
fn seed() -> Vec<u8> {
    written(|to| {
        to.begin_dict().expect("memory");
        for name in ["a", "list", "other"] {
            to.word(name).expect("memory");
            let mut list = to.begin_list().expect("memory");
            for number in [1, 300, 70_000, 1 << 40] {
                to.item(&mut list).expect("memory");
                to.begin_dict().expect("memory");
                to.word("a").expect("memory");
                to.int(number).expect("memory");
                to.word("list").expect("memory");
                to.pair(number, 0).expect("memory");
                to.end_dict().expect("memory");
            }
            to.end_list(list).expect("memory");
        }
        to.end_dict().expect("memory");
    })
}

#[test]
fn no_bytes_break_the_reader() {
    let opcode = prop::sample::select(
        b"(.NJKMGXCB)tlaeds}]uqrhjRcb0\x88\x89\x8a\x8b\x8c\x8d\x8e\x85\x86\x87\x93\x94\x95"
            .to_vec(),
    );
    let bytes = prop::collection::vec(prop_oneof![3 => opcode, 1 => any::<u8>()], 0..400);
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..8);
    proptest!(ProptestConfig::with_cases(4000), |(bytes in bytes, changes in changes)| {
        let _ = root(&framed(&bytes));
        let mut near = seed();
        for (at, byte, how) in changes {
            let at = at.index(near.len());
            match how {
                0 => near.insert(at, byte),
                1 if near.len() > 1 => drop(near.remove(at)),
                2 => near.truncate(at.max(1)),
                _ => near[at] = byte,
            }
        }
        let _ = root(&near);
    });
}
