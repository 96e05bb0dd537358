//! A tensor block's category, and the rules that decide it.
//!
//! Some categories are recorded: parameters and their gradients from what autograd accumulated, and others by name from
//! the framework ([`gpumem_capture::Role`]). The rest follows from where a block was allocated ([`Origin`]) and from
//! its end: a block of a forward that is freed during backward was kept for it. The category of a live block follows
//! from where it was allocated and from its age. Ages are counted in *turns*. A turn ends where a backward, an
//! optimizer's step or a training step begins or ends, and where a thread leaves the outermost call of a module.
//!
//! docs/categories.md has the rules as a table.

/// A tensor block's category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Not a tensor block.
    #[default]
    None,
    /// Parameters and buffers of modules.
    Parameter,
    /// Gradients of parameters.
    Gradient,
    /// State that an optimizer keeps from step to step.
    OptimizerState,
    /// Made by a forward and kept for its backward.
    Activation,
    /// A batch: allocated outside all modules, and not kept for long.
    Input,
    /// cuBLAS workspaces.
    Workspace,
    /// Allocated and freed within one turn, or by one backward.
    Temporary,
    /// None of these, or unknown.
    Other,
}

impl Category {
    /// All categories of tensor blocks, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Parameter,
        Self::Gradient,
        Self::OptimizerState,
        Self::Activation,
        Self::Input,
        Self::Workspace,
        Self::Temporary,
        Self::Other,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "no tensor",
            Self::Parameter => "parameter",
            Self::Gradient => "gradient",
            Self::OptimizerState => "optimizer state",
            Self::Activation => "activation",
            Self::Input => "input",
            Self::Workspace => "workspace",
            Self::Temporary => "temporary",
            Self::Other => "other",
        }
    }

    /// Whether it shows more than that a block is a tensor, and how long it lived.
    pub fn is_specific(self) -> bool {
        !matches!(self, Self::None | Self::Temporary | Self::Other)
    }

    pub(crate) fn numbered(number: u16) -> Self {
        let index = usize::from(number).wrapping_sub(1);
        Self::ALL.get(index).copied().unwrap_or_default()
    }

    /// Whether a block with a recorded role of this category keeps it when another role is recorded.
    pub(crate) fn outranks(self, other: Self) -> bool {
        let told = [Self::Parameter, Self::Gradient, Self::OptimizerState];
        let rank = |category| told.iter().position(|it| *it == category).unwrap_or(3);
        rank(self) <= rank(other)
    }
}

/// Where in the program a block was allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Unknown.
    #[default]
    Unknown,
    /// Where cuBLAS takes its workspaces.
    Workspace,
    /// Where modules make or convert their parameters and buffers.
    Weights,
    /// In an optimizer's step.
    Optimizer,
    /// In backward, or where an optimizer computes with all parameters at once.
    Backward,
    /// In a forward that runs again within backward.
    Recomputed,
    /// In a module, with gradients on.
    Forward,
    /// In a module, with gradients off.
    Inference,
    /// Outside of all modules.
    Outside,
}

/// A block allocated outside modules counts as a batch for this many turns. The next batch replaces it, or the one
/// after that if batches are prefetched.
const BATCH: u32 = 8;

/// A block's age.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Age {
    pub(crate) turns: u32,
    /// Whether the program has called modules.
    pub(crate) has_modules: bool,
    /// Whether the block was allocated before the forward began.
    pub(crate) is_early: bool,
    /// Whether it was allocated later, and a backward, an optimizer's step or a training step has begun or ended since.
    /// It is then a result of the forward.
    pub(crate) outlived_forward: bool,
    /// Whether gradients were off.
    pub(crate) is_no_grad: bool,
}

impl Age {
    /// The category of a block allocated outside all modules.
    fn of_a_batch(self) -> Category {
        match self.has_modules && self.turns <= BATCH {
            false => Category::Other,
            true if !self.outlived_forward => Category::Input,
            true if self.is_no_grad => Category::Other,
            true => Category::Activation,
        }
    }
}

impl Origin {
    /// The category that a new block gets.
    pub(crate) fn assumed(self, has_modules: bool) -> Category {
        match self {
            Self::Unknown => Category::Other,
            Self::Workspace => Category::Workspace,
            Self::Weights => Category::Parameter,
            Self::Optimizer => Category::OptimizerState,
            Self::Backward | Self::Inference => Category::Temporary,
            Self::Recomputed | Self::Forward => Category::Activation,
            Self::Outside if has_modules => Category::Input,
            Self::Outside => Category::Other,
        }
    }

    /// The category of a block that is freed.
    pub(crate) fn given_back(self, by_backward: bool, age: Age) -> Category {
        match self {
            Self::Outside if by_backward && age.has_modules && age.is_early => Category::Input,
            Self::Forward | Self::Inference | Self::Outside if by_backward => Category::Activation,
            Self::Optimizer | Self::Forward | Self::Inference | Self::Outside if age.turns == 0 => {
                Category::Temporary
            }
            Self::Backward if age.turns > BATCH => Category::Other,
            Self::Inference => Category::Other,
            Self::Outside => age.of_a_batch(),
            _ => self.assumed(age.has_modules),
        }
    }

    /// The category of a live block; `before`: that of the newest ended block with the same stacks.
    pub(crate) fn live(self, before: Category, age: Age) -> Category {
        match (self, before) {
            (Self::Forward, Category::Temporary) => Category::Temporary,
            (Self::Inference, Category::Activation) => Category::Activation,
            (Self::Inference, _) if age.turns > 1 || before == Category::Other => Category::Other,
            (Self::Outside, Category::Activation) if age.turns <= BATCH => Category::Activation,
            (Self::Outside, _) => age.of_a_batch(),
            _ => self.assumed(age.has_modules),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_categories() {
        for category in Category::ALL {
            assert_eq!(Category::numbered(category as u16), category);
        }
        assert_eq!(Category::numbered(0), Category::None);
        assert_eq!(Category::numbered(15), Category::None);
    }

    #[test]
    fn what_backward_gives_back_was_kept_for_it_unless_it_was_told_otherwise() {
        let age = |turns| Age {
            turns,
            has_modules: true,
            is_early: false,
            outlived_forward: false,
            is_no_grad: false,
        };
        for origin in [Origin::Forward, Origin::Inference, Origin::Outside] {
            assert_eq!(origin.given_back(true, age(1)), Category::Activation);
            assert_eq!(origin.given_back(false, age(0)), Category::Temporary);
        }
        assert_eq!(
            Origin::Backward.given_back(true, age(1)),
            Category::Temporary
        );
        assert_eq!(Origin::Outside.given_back(false, age(3)), Category::Input);
        assert_eq!(Origin::Outside.given_back(false, age(9)), Category::Other);
        assert_eq!(
            Origin::Weights.given_back(false, age(0)),
            Category::Parameter
        );
    }

    #[test]
    fn a_parameter_stays_one() {
        assert!(Category::Parameter.outranks(Category::Gradient));
        assert!(!Category::OptimizerState.outranks(Category::Gradient));
        assert!(!Category::Activation.outranks(Category::OptimizerState));
    }
}
