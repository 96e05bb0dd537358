use crate::{
    ApiId, CodeId, DefKind, Definition, DeviceOrdinal, Function, ModuleId, NnModuleId, PlacementId,
    ProcessKey, PyFrame, PyModule, StackId, ThreadId,
};

fn samples() -> Vec<Definition> {
    let name = || "näme".to_owned();
    let frame = |offset| PyFrame {
        code: CodeId(9),
        offset,
        entered_from_c: offset < 0,
    };
    vec![
        Definition::Api {
            id: ApiId(3),
            name: name(),
        },
        Definition::Code {
            id: CodeId(1),
            first_line: 2,
            file: name(),
            name: String::new(),
            line_table: vec![0, 255],
        },
        Definition::PyStack {
            id: StackId(4),
            truncated: true,
            frames: vec![frame(-2), frame(1000)],
            modules: Vec::new(),
        },
        Definition::PyStack {
            id: StackId(4),
            truncated: false,
            frames: vec![frame(-2), frame(1000)],
            modules: vec![PyModule {
                frame: 1,
                module: NnModuleId(12),
            }],
        },
        Definition::NnModule {
            id: NnModuleId(12),
            object: u64::MAX,
            class: name(),
        },
        Definition::NnModuleName {
            id: NnModuleId(12),
            name: name(),
        },
        Definition::Placement {
            id: PlacementId(13),
            device: DeviceOrdinal(14),
            stream: u64::MAX,
            stream_id: Some(15),
            pool: (16, u64::MAX),
        },
        Definition::Placement {
            id: PlacementId(254),
            device: DeviceOrdinal(0),
            stream: 0,
            stream_id: None,
            pool: (0, 0),
        },
        Definition::NativeStack {
            id: StackId(5),
            truncated: false,
            frames: vec![1, u64::MAX],
        },
        Definition::Module {
            id: ModuleId(6),
            bias: u64::MAX,
            start: 1,
            end: 2,
            path: name(),
            build_id: vec![1; 20],
        },
        Definition::ModuleEnd { id: ModuleId(6) },
        Definition::Thread {
            id: ThreadId(7),
            name: name(),
        },
        Definition::Device {
            ordinal: DeviceOrdinal(1),
            total_bytes: 1 << 37,
            uuid: *b"0123456789abcdef",
            name: name(),
            pci: name(),
        },
        Definition::Process {
            key: name(),
            value: name(),
        },
        Definition::Hook {
            function: name(),
            way: name(),
            library: name(),
        },
        Definition::Python {
            version: 0x030c_01f0,
            eval_start: 1,
            eval_end: 2,
        },
        Definition::Note { text: name() },
        Definition::Backward {
            id: StackId(8),
            lost: true,
            forward: StackId(4),
            own: StackId(0),
            newer: 3,
            node: name(),
        },
        Definition::Range {
            id: 1,
            name: name(),
        },
        Definition::Symbol {
            module: ModuleId(6),
            address: 0x1234,
            functions: vec![
                Function::default(),
                Function {
                    name: name(),
                    file: name(),
                    line: 88,
                },
            ],
        },
        Definition::Unknown {
            kind: DefKind(250),
            payload: vec![1, 2, 3],
        },
    ]
}

#[test]
fn every_kind_survives_the_round_trip() {
    for definition in samples() {
        let payload = definition.payload();
        let read = Definition::from_payload(definition.kind(), &payload);
        assert_eq!(read.as_ref(), Some(&definition));
    }
}

#[test]
fn a_payload_cut_short_is_refused_and_a_longer_one_taken() {
    for definition in samples() {
        if matches!(definition, Definition::Unknown { .. }) {
            continue;
        }
        let mut payload = definition.payload();
        for length in 0..payload.len() {
            let cut = Definition::from_payload(definition.kind(), &payload[..length]);
            assert_eq!(cut, None, "{definition:?} cut to {length}");
        }
        payload.extend_from_slice(b"later versions");
        let read = Definition::from_payload(definition.kind(), &payload);
        assert_eq!(read.as_ref(), Some(&definition));
    }
}

#[test]
fn hostile_counts_allocate_nothing() {
    let mut payload = vec![0; 8];
    payload.extend_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        Definition::from_payload(DefKind::NATIVE_STACK, &payload),
        None
    );
    assert_eq!(Definition::from_payload(DefKind::NOTE, &[255; 4]), None);
}

#[test]
fn text_is_clean_and_only_texts_of_several_lines_have_them() {
    let process = |key: &str| Definition::Process {
        key: key.into(),
        value: "a\nb\x1b[2J\u{202e}".into(),
    };
    let read = |of: Definition| Definition::from_payload(of.kind(), &of.payload()).unwrap();
    for (key, expected) in [
        (ProcessKey::COMMAND, "a�b�[2J�"),
        (ProcessKey::DIRECTORY, "a�b�[2J�"),
        ("postmortem.17", "a\nb�[2J�"),
        (ProcessKey::REPLAYED_DOUBTS, "a\nb�[2J�"),
    ] {
        let Definition::Process { value, .. } = read(process(key)) else {
            panic!("another kind");
        };
        assert_eq!(value, expected, "{key}");
    }
    let Definition::Note { text } = read(Definition::Note {
        text: "x\r\n\x1b[A".into(),
    }) else {
        panic!("another kind");
    };
    assert_eq!(text, "x���[A");
}
