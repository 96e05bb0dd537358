//! Decodes definitions from their payloads.

use std::borrow::Cow;

use crate::{
    ApiId, CodeId, DefKind, Definition, DeviceOrdinal, Function, ModuleId, NnModuleId, PlacementId,
    ProcessKey, PyFrame, PyModule, StackId, ThreadId, text,
};

impl Definition {
    /// Decodes a definition from its payload. None if the payload is too short for its kind. Bytes
    /// after the known fields are reserved for later versions. Text that is not UTF-8 (file names
    /// need not be) is read with replacement characters, as are characters that must not be shown
    /// ([`text::clean`]).
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
                let (id, flags, count) = from.stack()?;
                let frames = from.words(count, 8)?.map(|frame| {
                    let word = u64_of(frame);
                    PyFrame::from_words(word as u32, (word >> 32) as u32)
                });
                let calls = if flags & 2 == 0 {
                    0
                } else {
                    from.u32()? as usize
                };
                let modules = from.words(calls, 8)?.map(|call| {
                    let word = u64_of(call);
                    PyModule {
                        frame: word as u32,
                        module: NnModuleId((word >> 32) as u32),
                    }
                });
                Self::PyStack {
                    id,
                    truncated: flags & 1 != 0,
                    frames: frames.collect(),
                    modules: modules.collect(),
                }
            }
            DefKind::NATIVE_STACK => {
                let (id, flags, count) = from.stack()?;
                let frames = from.words(count, 8)?.map(u64_of).collect();
                Self::NativeStack {
                    id,
                    truncated: flags & 1 != 0,
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
            DefKind::PROCESS => {
                let (key, value) = (from.str()?, from.lossy()?);
                let value = match ProcessKey::is_of_lines(&key) {
                    true => text::clean_lines(&value),
                    false => text::clean(&value),
                };
                Self::Process {
                    key,
                    value: value.into_owned(),
                }
            }
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
                // A count that is too large fails at the payload's end; nothing is allocated for
                // it.
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
            DefKind::NN_MODULE => Self::NnModule {
                id: NnModuleId(from.u32()?),
                object: from.u64()?,
                class: from.str()?,
            },
            DefKind::NN_MODULE_NAME => Self::NnModuleName {
                id: NnModuleId(from.u32()?),
                name: from.str()?,
            },
            DefKind::PLACEMENT => Self::Placement {
                id: PlacementId(from.u8()?),
                device: DeviceOrdinal(from.u8()?),
                stream: from.u64()?,
                stream_id: Some(from.u64()?).filter(|id| *id != u64::MAX),
                pool: (from.u64()?, from.u64()?),
            },
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

    fn lossy(&mut self) -> Option<Cow<'a, str>> {
        self.bytes().map(String::from_utf8_lossy)
    }

    fn str(&mut self) -> Option<String> {
        Some(text::clean(&self.lossy()?).into_owned())
    }

    fn stack(&mut self) -> Option<(StackId, u32, usize)> {
        Some((StackId(self.u32()?), self.u32()?, self.u32()? as usize))
    }

    /// `count` items of `size` bytes: nothing is allocated before their presence is checked.
    fn words(&mut self, count: usize, size: usize) -> Option<core::slice::ChunksExact<'a, u8>> {
        Some(self.take(count.checked_mul(size)?)?.chunks_exact(size))
    }
}
