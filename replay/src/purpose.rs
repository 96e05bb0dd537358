//! The purpose of an allocation.

use gpumem_capture::Phase as Number;

use crate::category::Category;
use crate::serialize::serialize;

/// The phase of a thread when it allocated, according to its own marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadPhase {
    /// In no phase.
    #[default]
    Outside,
    /// In no phase and without Python, while another thread waited for autograd's engine. The thread may or may not
    /// have worked for that one.
    Beside,
    /// In a phase that this analyzer does not know.
    Other,
    /// In backward.
    Backward,
    /// In an optimizer's step.
    Optimizer,
    /// Gradients were zeroed.
    ZeroGrad,
}

impl ThreadPhase {
    const ALL: [Self; 6] = [
        Self::Outside,
        Self::Beside,
        Self::Other,
        Self::Backward,
        Self::Optimizer,
        Self::ZeroGrad,
    ];

    pub(crate) fn of(number: u64) -> Self {
        match Number(number) {
            Number::BACKWARD => Self::Backward,
            Number::OPTIMIZER => Self::Optimizer,
            Number::ZERO_GRAD => Self::ZeroGrad,
            _ => Self::Other,
        }
    }
}

/// The purpose of an allocation: a phase, and whether it is a cuBLAS workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Purpose(pub(crate) u16);

const WORKSPACE: u16 = 8;
const NO_GRAD: u16 = 16;
const BEFORE_FORWARD: u16 = 32;
const AFTER_TRAINING: u16 = 64;
/// The lowest bit of the category.
const CATEGORY: u32 = 8;

impl Purpose {
    /// No particular purpose.
    pub(crate) const NONE: Self = Self(0);

    /// The purpose of an allocation in a phase.
    pub fn new(phase: ThreadPhase, workspace: bool) -> Self {
        Self(phase as u16 | if workspace { WORKSPACE } else { 0 })
    }

    /// The same, allocated while gradients were off.
    pub(crate) fn no_grad(self) -> Self {
        Self(self.0 | NO_GRAD)
    }

    /// The same, allocated outside all modules before the forward of a step.
    pub(crate) fn before_forward(self) -> Self {
        Self(self.0 | BEFORE_FORWARD)
    }

    /// The same, allocated after the last backward and optimizer's step of the run.
    pub(crate) fn after_training(self) -> Self {
        Self(self.0 | AFTER_TRAINING)
    }

    /// The same, allocated during the training.
    pub(crate) fn in_training(self) -> Self {
        Self(self.0 & !AFTER_TRAINING)
    }

    /// The same without what is unknown for blocks without stacks.
    pub(crate) fn without_place(self) -> Self {
        Self(self.0 & !BEFORE_FORWARD)
    }

    /// The same, with a category.
    pub(crate) fn with(self, category: Category) -> Self {
        let rest = self.0 & ((1 << CATEGORY) - 1);
        Self(rest | (category as u16) << CATEGORY)
    }

    /// The category; [`Category::None`] for anything but a tensor block.
    pub fn category(self) -> Category {
        Category::numbered(self.0 >> CATEGORY)
    }

    /// Whether it was allocated outside all modules, at a place in the program that comes before the forward of a step.
    pub fn is_before_forward(self) -> bool {
        self.0 & BEFORE_FORWARD != 0
    }

    /// Whether no backward and no optimizer's step came after it, as the recorder stated at the program's end.
    pub fn is_after_training(self) -> bool {
        self.0 & AFTER_TRAINING != 0
    }

    /// Whether gradients were off.
    pub fn is_no_grad(self) -> bool {
        self.0 & NO_GRAD != 0
    }

    /// The phase.
    pub fn phase(self) -> ThreadPhase {
        let index = usize::from(self.0 & (WORKSPACE - 1));
        ThreadPhase::ALL.get(index).copied().unwrap_or_default()
    }

    /// Whether it is a cuBLAS workspace.
    pub fn is_workspace(self) -> bool {
        self.0 & WORKSPACE != 0
    }
}

serialize! {
    Purpose { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_holds_a_phase_and_whether_it_is_a_workspace() {
        for phase in ThreadPhase::ALL {
            for workspace in [false, true] {
                let purpose = Purpose::new(phase, workspace);
                assert_eq!(
                    (purpose.phase(), purpose.is_workspace()),
                    (phase, workspace)
                );
            }
        }
        assert_eq!(
            Purpose::default(),
            Purpose::new(ThreadPhase::Outside, false)
        );
    }
}
