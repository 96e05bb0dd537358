//! Definitions as bytes. [`DefKind`]'s table says what each kind holds; strings and byte strings are a
//! u32 length and that many bytes.

use crate::{
    ApiId, CodeId, DefKind, Definition, DeviceOrdinal, Function, ModuleId, PyFrame, StackId,
    ThreadId,
};

impl Definition {
    /// The definition's kind.
    pub fn kind(&self) -> DefKind {
        match self {
            Self::Api { .. } => DefKind::API,
            Self::Code { .. } => DefKind::CODE,
            Self::PyStack { .. } => DefKind::PY_STACK,
            Self::NativeStack { .. } => DefKind::NATIVE_STACK,
            Self::Module { .. } => DefKind::MODULE,
            Self::ModuleEnd { .. } => DefKind::MODULE_END,
            Self::Thread { .. } => DefKind::THREAD,
            Self::Device { .. } => DefKind::DEVICE,
            Self::Process { .. } => DefKind::PROCESS,
            Self::Hook { .. } => DefKind::HOOK,
            Self::Python { .. } => DefKind::PYTHON,
            Self::Note { .. } => DefKind::NOTE,
            Self::Backward { .. } => DefKind::BACKWARD,
            Self::Range { .. } => DefKind::RANGE,
            Self::Symbol { .. } => DefKind::SYMBOL,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// The payload as [`crate::Writer::definition`] takes it (as one part).
    pub fn payload(&self) -> Vec<u8> {
        let mut out = Sink(Vec::new());
        match self {
            Self::Api { id, name } => out.u16(id.0).str(name),
            Self::Code {
                id,
                first_line,
                file,
                name,
                line_table,
            } => out
                .u32(id.0)
                .u32(*first_line)
                .u32(0)
                .str(file)
                .str(name)
                .bytes(line_table),
            Self::PyStack {
                id,
                truncated,
                frames,
            } => {
                out.u32(id.0)
                    .u32(u32::from(*truncated))
                    .u32(frames.len() as u32);
                for frame in frames {
                    out.u32(frame.code.0).u32(frame.word());
                }
                &mut out
            }
            Self::NativeStack {
                id,
                truncated,
                frames,
            } => {
                out.u32(id.0)
                    .u32(u32::from(*truncated))
                    .u32(frames.len() as u32);
                for frame in frames {
                    out.u64(*frame);
                }
                &mut out
            }
            Self::Module {
                id,
                bias,
                start,
                end,
                path,
                build_id,
            } => out
                .u32(id.0)
                .u64(*bias)
                .u64(*start)
                .u64(*end)
                .str(path)
                .bytes(build_id),
            Self::ModuleEnd { id } => out.u32(id.0),
            Self::Thread { id, name } => out.u32(id.0).str(name),
            Self::Device {
                ordinal,
                total_bytes,
                uuid,
                name,
                pci,
            } => out
                .raw(&[ordinal.0])
                .u64(*total_bytes)
                .bytes(uuid)
                .str(name)
                .str(pci),
            Self::Process { key, value } => out.str(key).str(value),
            Self::Hook {
                function,
                way,
                library,
            } => out.str(function).str(way).str(library),
            Self::Python {
                version,
                eval_start,
                eval_end,
            } => out.u32(*version).u64(*eval_start).u64(*eval_end),
            Self::Note { text } => out.str(text),
            Self::Backward {
                id,
                lost,
                forward,
                own,
                newer,
                node,
            } => out
                .u32(id.0)
                .u32(u32::from(*lost))
                .u32(forward.0)
                .u32(own.0)
                .u32(*newer)
                .str(node),
            Self::Range { id, name } => out.u32(*id).str(name),
            Self::Symbol {
                module,
                address,
                functions,
            } => {
                out.u32(module.0).u64(*address).u32(functions.len() as u32);
                for function in functions {
                    out.str(&function.name)
                        .str(&function.file)
                        .u32(function.line);
                }
                &mut out
            }
            Self::Unknown { payload, .. } => out.raw(payload),
        };
        out.0
    }

    /// Takes a definition from its payload. None if the payload is shorter than its kind demands;
    /// what follows after that is left for later versions. Text that is not UTF-8 (file names need
    /// not be) is read with replacement characters.
    pub fn from_payload(kind: DefKind, payload: &[u8]) -> Option<Self> {
        let mut from = Source(payload);
        Some(match kind {
            DefKind::API => Self::Api {
                id: ApiId(from.u16()?),
                name: from.str()?,
            },
            DefKind::CODE => {
                let (id, first_line, _flags) = (CodeId(from.u32()?), from.u32()?, from.u32()?);
                let (file, name, line_table) = (from.str()?, from.str()?, from.bytes()?.to_vec());
                Self::Code {
                    id,
                    first_line,
                    file,
                    name,
                    line_table,
                }
            }
            DefKind::PY_STACK => {
                let (id, truncated, count) = from.stack()?;
                let frames = from.words(count, 8)?.map(|frame| {
                    let word = u64_of(frame);
                    PyFrame::from_words(word as u32, (word >> 32) as u32)
                });
                Self::PyStack {
                    id,
                    truncated,
                    frames: frames.collect(),
                }
            }
            DefKind::NATIVE_STACK => {
                let (id, truncated, count) = from.stack()?;
                let frames = from.words(count, 8)?.map(u64_of).collect();
                Self::NativeStack {
                    id,
                    truncated,
                    frames,
                }
            }
            DefKind::MODULE => {
                let (id, bias) = (ModuleId(from.u32()?), from.u64()?);
                let (start, end) = (from.u64()?, from.u64()?);
                let (path, build_id) = (from.str()?, from.bytes()?.to_vec());
                Self::Module {
                    id,
                    bias,
                    start,
                    end,
                    path,
                    build_id,
                }
            }
            DefKind::MODULE_END => Self::ModuleEnd {
                id: ModuleId(from.u32()?),
            },
            DefKind::THREAD => Self::Thread {
                id: ThreadId(from.u32()?),
                name: from.str()?,
            },
            DefKind::DEVICE => {
                let (ordinal, total_bytes) = (DeviceOrdinal(from.u8()?), from.u64()?);
                let uuid = from.bytes()?.try_into().ok()?;
                Self::Device {
                    ordinal,
                    total_bytes,
                    uuid,
                    name: from.str()?,
                    pci: from.str()?,
                }
            }
            DefKind::PROCESS => Self::Process {
                key: from.str()?,
                value: from.str()?,
            },
            DefKind::HOOK => Self::Hook {
                function: from.str()?,
                way: from.str()?,
                library: from.str()?,
            },
            DefKind::PYTHON => {
                let (version, eval_start, eval_end) = (from.u32()?, from.u64()?, from.u64()?);
                Self::Python {
                    version,
                    eval_start,
                    eval_end,
                }
            }
            DefKind::NOTE => Self::Note { text: from.str()? },
            DefKind::BACKWARD => {
                let (id, flags) = (StackId(from.u32()?), from.u32()?);
                Self::Backward {
                    id,
                    lost: flags & 1 != 0,
                    forward: StackId(from.u32()?),
                    own: StackId(from.u32()?),
                    newer: from.u32()?,
                    node: from.str()?,
                }
            }
            DefKind::RANGE => Self::Range {
                id: from.u32()?,
                name: from.str()?,
            },
            DefKind::SYMBOL => {
                let (module, address, count) = (ModuleId(from.u32()?), from.u64()?, from.u32()?);
                // A hostile count ends at the payload's end; nothing is set aside for it.
                let functions = (0..count).map(|_| {
                    Some(Function {
                        name: from.str()?,
                        file: from.str()?,
                        line: from.u32()?,
                    })
                });
                Self::Symbol {
                    module,
                    address,
                    functions: functions.collect::<Option<_>>()?,
                }
            }
            kind => Self::Unknown {
                kind,
                payload: payload.to_vec(),
            },
        })
    }
}

fn u64_of(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

struct Sink(Vec<u8>);

impl Sink {
    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32).raw(bytes)
    }

    fn str(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }
}

struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        Some(u64_of(self.take(1)?) as u8)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u64_of(self.take(2)?) as u16)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u64_of(self.take(4)?) as u32)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64_of(self.take(8)?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn str(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    fn stack(&mut self) -> Option<(StackId, bool, usize)> {
        Some((
            StackId(self.u32()?),
            self.u32()? & 1 != 0,
            self.u32()? as usize,
        ))
    }

    /// `count` items of `size` bytes: nothing is allocated before they are known to be there.
    fn words(&mut self, count: usize, size: usize) -> Option<core::slice::ChunksExact<'a, u8>> {
        Some(self.take(count.checked_mul(size)?)?.chunks_exact(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
