//! Names of PyTorch modules (`torch.nn.Module`).

use gpumem_capture::{NnModuleId, StackId};

use super::Names;

/// A longer chain of callers is cut: that of a damaged capture may be endless.
const DEPTH: usize = 64;

impl Names {
    /// The module that is called by the newest of a Python stack's `newest` frames that call one.
    pub(crate) fn innermost_module(&self, stack: StackId, newest: usize) -> Option<NnModuleId> {
        let call = self.nn.calls.get(&stack)?.first()?;
        ((call.frame as usize) < newest).then_some(call.module)
    }

    /// A module's name in output: the name that the program gave it (`blocks.3.attn.qkv`), or its class and its number
    /// in the class (`Block#3`).
    pub fn module_name(&self, id: NnModuleId) -> String {
        match self.nn.modules.get(&id) {
            Some(module) if !module.name.is_empty() => module.name.clone(),
            Some(module) => format!("{}#{}", module.class, module.ordinal),
            None => "(module not in the capture)".into(),
        }
    }

    /// Whether the program gave a module a name.
    pub(crate) fn has_qualified_name(&self, id: NnModuleId) -> bool {
        let module = self.nn.modules.get(&id);
        module.is_some_and(|module| !module.name.is_empty())
    }

    /// The class of a module.
    pub fn module_class(&self, id: NnModuleId) -> Option<&str> {
        self.nn.modules.get(&id).map(|module| &*module.class)
    }

    /// The names of a module and of those that contain it, outermost first: for `blocks.3.attn` these are `blocks`,
    /// `blocks.3` and `blocks.3.attn`. For a module without a name they are those of the modules that called it.
    pub fn module_path(&self, id: NnModuleId) -> Vec<String> {
        let mut path = Vec::new();
        let mut at = id;
        while path.len() < DEPTH {
            let Some(module) = self.nn.modules.get(&at) else {
                break;
            };
            if !module.name.is_empty() {
                let dots = module.name.match_indices('.').map(|(dot, _)| dot);
                let ends = dots.chain([module.name.len()]);
                let mut names: Vec<String> = ends.map(|end| module.name[..end].into()).collect();
                names.extend(path.into_iter().rev());
                return names;
            }
            path.push(self.module_name(at));
            if module.caller == at {
                break;
            }
            at = module.caller;
        }
        if path.is_empty() {
            path.push(self.module_name(id));
        }
        path.reverse();
        path
    }

    /// Whether a pattern matches the name of a module or of one that contains it. `*` stands for any characters, dots
    /// too, `?` for one.
    pub fn module_matches(&self, id: NnModuleId, pattern: &str) -> bool {
        let pattern: Vec<char> = pattern.chars().collect();
        let takes = |name: &str| {
            let name: Vec<char> = name.chars().collect();
            is_like(&name, &pattern)
        };
        let callers = std::iter::successors(Some(id), |at| {
            let caller = self.nn.modules.get(at)?.caller;
            (caller != *at).then_some(caller)
        });
        self.module_path(id).iter().any(|name| takes(name))
            || callers
                .take(DEPTH)
                .any(|caller| takes(&self.module_name(caller)))
    }
}

/// Whether `pattern` matches all of `text`.
fn is_like(text: &[char], pattern: &[char]) -> bool {
    // Where to continue if the text after the newest `*` does not match.
    let (mut at, mut of, mut again) = (0, 0, None);
    while at < text.len() {
        match pattern.get(of) {
            Some('*') => {
                again = Some((at, of));
                of += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == text[at] => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((from, star)) = again else {
                    return false;
                };
                again = Some((from + 1, star));
                (at, of) = (from + 1, star + 1);
            }
        }
    }
    pattern[of..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::super::nn_modules::NnModules;
    use super::super::samples::calling;
    use super::*;
    use crate::serialize::Serialize;
    use gpumem_capture::Definition;

    #[test]
    fn names_come_from_the_program_or_else_from_classes_and_callers() {
        let mut names = calling(&[(10, &[(0, 4), (1, 3), (3, 1)])]);
        let id = NnModuleId(4);
        assert_eq!(names.module_name(id), "Linear#1");
        assert_eq!(names.module_path(id), ["Net#1", "Block#2", "Linear#1"]);
        names.define(&Definition::NnModuleName {
            id: NnModuleId(3),
            name: "blocks.1".into(),
        });
        assert_eq!(names.module_path(id), ["blocks", "blocks.1", "Linear#1"]);
        let mut bytes = Vec::new();
        names.nn.put(&mut bytes);
        names.nn = NnModules::take(&mut &bytes[..]).unwrap();
        assert_eq!(names.module_path(id), ["blocks", "blocks.1", "Linear#1"]);
        names.define(&Definition::NnModule {
            id: NnModuleId(9),
            object: 0,
            class: "Block".into(),
        });
        assert_eq!(names.module_name(NnModuleId(9)), "Block#3");
        for (pattern, takes) in [
            ("blocks.1", true),
            ("blocks.*", true),
            ("blocks", true),
            ("Linear#?", true),
            ("Net*", true),
            ("*", true),
            ("block", false),
            ("blocks.2", false),
            ("", false),
        ] {
            assert_eq!(names.module_matches(id, pattern), takes, "{pattern}");
        }
    }

    #[test]
    fn callers_in_a_circle_end() {
        let names = calling(&[(10, &[(0, 2), (1, 3)]), (11, &[(0, 3), (1, 2)])]);
        assert!(names.module_path(NnModuleId(2)).len() <= DEPTH);
        assert!(!names.module_matches(NnModuleId(2), "x"));
    }

    #[test]
    fn patterns_are_of_whole_names() {
        for (text, pattern, like) in [
            ("blocks.12.attn", "blocks.*.attn", true),
            ("blocks.12.attn.qkv", "blocks.*.attn", false),
            ("blocks.12.attn.qkv", "*qkv", true),
            ("blocks.1", "blocks.?", true),
            ("blocks.12", "blocks.?", false),
            ("", "*", true),
            ("aab", "*a*b", true),
        ] {
            let [text, pattern] = [text, pattern].map(|text| text.chars().collect::<Vec<_>>());
            assert_eq!(is_like(&text, &pattern), like, "{text:?} {pattern:?}");
        }
    }
}
