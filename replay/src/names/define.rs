//! Takes in definitions.

use gpumem_capture::{Definition, ProcessKey};

use super::{Code, Device, Hook, Interpreter, Module, Names, NativeFrame};
use crate::ids::NodeId;
use crate::node::Backward;

impl Names {
    /// Takes in a definition.
    pub fn define(&mut self, definition: &Definition) {
        match definition.clone() {
            Definition::Api { id, name } => drop(self.apis.insert(id, name)),
            Definition::Code {
                id,
                first_line,
                file,
                name,
                line_table,
            } => {
                self.codes.insert(
                    id,
                    Code {
                        file,
                        name,
                        first_line,
                        line_table,
                    },
                );
            }
            Definition::PyStack {
                id,
                truncated,
                frames,
                modules,
            } => {
                self.py_stacks.insert(id, (frames, truncated));
                self.nn.stack(id, modules);
            }
            Definition::NativeStack {
                id,
                truncated,
                frames,
            } => {
                let frames = frames
                    .into_iter()
                    .map(|address| self.locate(address))
                    .collect();
                self.native_stacks.insert(id, (frames, truncated));
            }
            Definition::Module {
                id,
                bias,
                start,
                end,
                path,
                build_id,
            } => {
                self.loaded.insert(start, self.modules.len() as u32);
                self.modules.push(Module {
                    id,
                    bias,
                    start,
                    end,
                    path,
                    build_id,
                });
            }
            Definition::ModuleEnd { id } => {
                self.loaded
                    .retain(|_, index| self.modules[*index as usize].id != id);
            }
            Definition::Thread { id, name } => drop(self.threads.insert(id, name)),
            Definition::Device {
                ordinal,
                total_bytes,
                uuid,
                name,
                pci,
            } => {
                self.devices.insert(
                    ordinal,
                    Device {
                        total_bytes,
                        uuid,
                        name,
                        pci,
                    },
                );
            }
            Definition::Process { key, value } => {
                let is_code = key == ProcessKey::CODE;
                self.process.insert(key, value);
                if is_code {
                    self.read_own_packages();
                }
            }
            Definition::Hook {
                function,
                way,
                library,
            } => {
                self.hooks.push(Hook {
                    function,
                    way,
                    library,
                });
            }
            Definition::Python {
                version,
                eval_start,
                eval_end,
            } => {
                self.interpreter = Some(Interpreter {
                    version,
                    eval: (eval_start, eval_end),
                });
            }
            Definition::Symbol {
                module,
                address,
                functions,
            } => drop(self.symbols.insert((module, address), functions)),
            Definition::Note { text } => self.notes.push(text),
            Definition::Backward {
                id,
                lost,
                forward,
                own,
                newer,
                node,
            } => {
                let backward = Backward {
                    node: self.node_id(node),
                    forward,
                    own,
                    newer: newer as usize,
                    lost,
                };
                self.backwards.insert(id, backward);
            }
            Definition::NnModule { id, class, .. } => self.nn.define(id, class),
            Definition::NnModuleName { id, name } => self.nn.name(id, name),
            Definition::Range { id, name } => drop(self.ranges.insert(id, name)),
            // Used by replays of the framework's allocator.
            Definition::Placement { .. } => {}
            _ => self.unknown += 1,
        }
    }

    fn node_id(&mut self, name: String) -> NodeId {
        let nodes = &mut self.nodes;
        let id = self.node_ids.entry(name);
        *id.or_insert_with_key(|name| {
            nodes.push(name.clone());
            NodeId(nodes.len() as u32 - 1)
        })
    }

    fn locate(&self, address: u64) -> NativeFrame {
        let module = self.module_at(address.saturating_sub(1));
        NativeFrame { address, module }
    }
}
