//! Finds the PyTorch module (`torch.nn.Module`) that an allocation belongs to.

use gpumem_capture::{NnModuleId, StackId};

use crate::backward::{Origin, chain};
use crate::names::Names;

impl Names {
    /// The PyTorch module that ran in a Python stack: the innermost. An allocation of an autograd node belongs to the
    /// module that ran in the node (a recomputed forward), or else to the module of the forward that made the node.
    pub fn module_of(&self, stack: StackId) -> Option<NnModuleId> {
        let Some(ran) = self.backwards.get(&stack) else {
            return self.innermost_module(stack, usize::MAX);
        };
        let (chain, origin) = chain(self, ran);
        let in_nodes = chain.iter();
        in_nodes
            .filter_map(|ran| self.innermost_module(ran.own, ran.newer))
            .next()
            .or_else(|| match origin {
                Origin::Forward(stack) => self.innermost_module(stack, usize::MAX),
                Origin::NoPython | Origin::Lost => None,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::samples::calling;
    use gpumem_capture::Definition;

    fn backward(names: &mut Names, id: u32, forward: u32, own: u32, newer: u32) {
        names.define(&Definition::Backward {
            id: StackId(id),
            lost: false,
            forward: StackId(forward),
            own: StackId(own),
            newer,
            node: "N".into(),
        });
    }

    #[test]
    fn the_innermost_module_is_at_work() {
        let names = calling(&[(10, &[(0, 4), (1, 3), (3, 1)]), (11, &[])]);
        let of = |stack| names.module_of(StackId(stack)).map(|id| id.0);
        assert_eq!((of(10), of(11), of(0)), (Some(4), None, None));
    }

    #[test]
    fn a_backward_belongs_to_the_module_of_its_forward_or_of_what_runs_again() {
        let mut names = calling(&[
            (10, &[(0, 4), (1, 3), (3, 1)]),
            (11, &[(1, 2)]),
            (12, &[(2, 3)]),
        ]);
        backward(&mut names, 20, 10, 0, 0);
        backward(&mut names, 21, 10, 11, 2);
        backward(&mut names, 22, 10, 12, 2);
        backward(&mut names, 23, 20, 0, 0);
        backward(&mut names, 24, 0, 0, 0);
        let of = |stack| names.module_of(StackId(stack)).map(|id| id.0);
        assert_eq!(of(20), Some(4));
        assert_eq!(of(21), Some(2), "a module runs in the node");
        assert_eq!(of(22), Some(4), "the thread was in a module before");
        assert_eq!(of(23), Some(4), "made by a node");
        assert_eq!(of(24), None);
    }
}
