//! A definition's kind and payload.

use crate::{DefKind, Definition};

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
            Self::NnModule { .. } => DefKind::NN_MODULE,
            Self::NnModuleName { .. } => DefKind::NN_MODULE_NAME,
            Self::Placement { .. } => DefKind::PLACEMENT,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// The payload as one part, for [`crate::Writer::definition`].
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
                modules,
            } => {
                let has_modules = u32::from(!modules.is_empty());
                out.u32(id.0)
                    .u32(u32::from(*truncated) | has_modules << 1)
                    .u32(frames.len() as u32);
                for frame in frames {
                    out.u32(frame.code.0).u32(frame.word());
                }
                if !modules.is_empty() {
                    out.u32(modules.len() as u32);
                }
                for call in modules {
                    out.u32(call.frame).u32(call.module.0);
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
            Self::NnModule { id, object, class } => out.u32(id.0).u64(*object).str(class),
            Self::NnModuleName { id, name } => out.u32(id.0).str(name),
            Self::Placement {
                id,
                device,
                stream,
                stream_id,
                pool,
            } => out
                .raw(&[id.0, device.0])
                .u64(*stream)
                .u64(stream_id.unwrap_or(u64::MAX))
                .u64(pool.0)
                .u64(pool.1),
            Self::Unknown { payload, .. } => out.raw(payload),
        };
        out.0
    }
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
