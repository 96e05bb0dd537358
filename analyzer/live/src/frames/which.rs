//! A row of the table, and the memory that belongs to it.

use gpumem_analyzer::attribution::Owner;
use gpumem_analyzer::replay::{At, Category, Replay, StackKey};
use gpumem_analyzer::views::{ByStack, CategoryRow, LineRow, ModuleRow, Owners, Select};
use gpumem_capture::{DeviceOrdinal, Level};

/// What a row of the table stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Which {
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// The owner.
    pub of: Of,
}

/// An owner of memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// A whole line.
    Line(Owner),
    /// A category of tensors.
    Category(Category),
    /// A module, and whether the row is its cuBLAS workspaces.
    Module(Option<String>, bool),
}

impl Which {
    /// The memory of each of its stacks at a point in time.
    pub(crate) fn held(&self, replay: &Replay, level: Level, moment: At) -> ByStack {
        let select = Select {
            device: Some(self.device.map_or(DeviceOrdinal::NONE, DeviceOrdinal)),
            ..Select::default()
        };
        let mut held = ByStack::at(replay, level, moment, &select);
        let mut owners = Owners::new(replay, level);
        for on in &mut held.devices {
            on.figures
                .retain(|(stacks, _)| self.of.takes(replay, *stacks, &mut owners));
            on.total = None;
        }
        held
    }
}

impl Of {
    fn takes(&self, replay: &Replay, stacks: StackKey, owners: &mut Owners<'_>) -> bool {
        match self {
            Self::Line(owner) => owners.of(stacks).whole() == *owner,
            Self::Category(category) => stacks.purpose.category() == *category,
            Self::Module(module, workspace) => {
                let names = &replay.names;
                let of = names.module_of(stacks.py).map(|id| names.module_name(id));
                of == *module && stacks.purpose.is_workspace() == *workspace
            }
        }
    }
}

impl From<&LineRow> for Which {
    fn from(row: &LineRow) -> Self {
        Self {
            device: row.device,
            of: Of::Line(row.owner.clone()),
        }
    }
}

impl From<&CategoryRow> for Which {
    fn from(row: &CategoryRow) -> Self {
        Self {
            device: row.device,
            of: Of::Category(row.category),
        }
    }
}

impl From<&ModuleRow> for Which {
    fn from(row: &ModuleRow) -> Self {
        Self {
            device: row.device,
            of: Of::Module(row.module.clone(), row.workspace),
        }
    }
}
