//! Names of native functions, found on this machine by path and build id.

use std::collections::BTreeMap;
use std::path::Path;

use blazesym::helper::read_elf_build_id;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::names::{Module, Names, NativeFrame};

/// The evaluation function of every CPython; its cold part carries a suffix.
const EVALUATION: &str = "_PyEval_EvalFrameDefault";

/// Looks functions up, each address once.
pub struct Symbols {
    symbolizer: Symbolizer,
    /// By module (index into [`Names::modules`]) and address in it.
    known: FxHashMap<(u32, u64), String>,
    /// Modules whose file here is the one that ran; false: missing, or another build.
    usable: FxHashMap<u32, bool>,
}

impl Default for Symbols {
    fn default() -> Self {
        Self::new()
    }
}

impl Symbols {
    /// Knows nothing yet; reads files only when asked for names in them.
    pub fn new() -> Self {
        let symbolizer = Symbolizer::builder()
            .enable_code_info(false)
            .enable_inlined_fns(false)
            .enable_demangling(true)
            .build();
        Self {
            symbolizer,
            known: FxHashMap::default(),
            usable: FxHashMap::default(),
        }
    }

    /// Finds the names of many frames, a whole module at a time.
    pub fn find<'a>(&mut self, names: &Names, frames: impl IntoIterator<Item = &'a NativeFrame>) {
        let mut wanted: BTreeMap<u32, FxHashSet<u64>> = BTreeMap::new();
        for frame in frames {
            let (Some(index), Some(module)) = (frame.module, names.module(frame)) else {
                continue;
            };
            let offset = offset(frame, module);
            if !self.known.contains_key(&(index, offset)) {
                wanted.entry(index).or_default().insert(offset);
            }
        }
        for (index, offsets) in wanted {
            let module = &names.modules[index as usize];
            let usable = *self
                .usable
                .entry(index)
                .or_insert_with(|| is_the_one_that_ran(module));
            let mut offsets: Vec<u64> = offsets.into_iter().collect();
            offsets.sort_unstable();
            let found = if usable {
                self.look_up(&module.path, &offsets)
            } else {
                Vec::new()
            };
            let mut found = found.into_iter();
            for offset in offsets {
                let name = found.next().flatten();
                let name = name.unwrap_or_else(|| format!("{}+{offset:#x}", module.basename()));
                self.known.insert((index, offset), name);
            }
        }
    }

    fn look_up(&self, path: &str, offsets: &[u64]) -> Vec<Option<String>> {
        let mut elf = Elf::new(path);
        elf.debug_syms = false;
        let found = self
            .symbolizer
            .symbolize(&Source::Elf(elf), Input::VirtOffset(offsets));
        let Ok(found) = found else { return Vec::new() };
        found
            .into_iter()
            .map(|symbol| match symbol {
                Symbolized::Sym(symbol) => Some(readable(&symbol.name)),
                Symbolized::Unknown(_) => None,
            })
            .collect()
    }

    /// A frame's function; `libfoo.so+0x1234` where its file is not on this machine, is another build
    /// or has no such symbol.
    pub fn name(&mut self, names: &Names, frame: &NativeFrame) -> &str {
        self.find(names, [frame]);
        frame
            .module
            .and_then(|index| Some((index, offset(frame, names.module(frame)?))))
            .and_then(|key| self.known.get(&key))
            .map_or("[code in no module]", String::as_str)
    }

    /// Whether a frame is the interpreter's evaluation function, and so stands for Python frames.
    pub fn is_evaluation(&mut self, names: &Names, frame: &NativeFrame) -> bool {
        let (start, end) = names
            .interpreter
            .map_or((0, 0), |interpreter| interpreter.eval);
        let call = frame.call_address();
        if (start..end).contains(&call) {
            return true;
        }
        // A cold part lies elsewhere in the same module; other modules need no look-up.
        is_interpreter(names, frame) && self.name(names, frame).starts_with(EVALUATION)
    }
}

/// Whether a frame lies in the interpreter itself.
pub fn is_interpreter(names: &Names, frame: &NativeFrame) -> bool {
    let Some(module) = names.module(frame) else {
        return false;
    };
    let eval = names
        .interpreter
        .map_or(0, |interpreter| interpreter.eval.0);
    if eval != 0 && (module.start..module.end).contains(&eval) {
        return true;
    }
    // The program itself, where the interpreter is a library, and where its address is not known.
    let name = module.basename();
    let version = name
        .strip_prefix("libpython")
        .or_else(|| name.strip_prefix("python"));
    version.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn offset(frame: &NativeFrame, module: &Module) -> u64 {
    frame.call_address().wrapping_sub(module.bias)
}

/// Whether the file at the module's path is the one that was loaded: by build id. A module without one
/// cannot be told from another build, so it is not used.
fn is_the_one_that_ran(module: &Module) -> bool {
    !module.build_id.is_empty()
        && Path::new(&module.path).is_file()
        && matches!(read_elf_build_id(&module.path), Ok(Some(id)) if *id == *module.build_id)
}

/// Longer names lose the arguments of their templates.
const LONG_NAME: usize = 80;

/// A function's name as a person would say it.
fn readable(name: &str) -> String {
    let name = without_parameters(name);
    if name.chars().count() <= LONG_NAME
        || ["operator<", "operator>", "->"]
            .iter()
            .any(|sign| name.contains(sign))
    {
        return name.to_owned();
    }
    let (mut out, mut depth) = (String::new(), 0_u32);
    for c in name.chars() {
        match c {
            '<' => {
                if depth == 0 {
                    out.push_str("<…>");
                }
                depth += 1;
            }
            '>' => depth = depth.saturating_sub(1),
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

/// A C++ function's name without its parameters, which say little and can be very long.
fn without_parameters(name: &str) -> &str {
    let mut depth = 0_i32;
    for (at, c) in name.char_indices() {
        let before = &name[..at];
        match c {
            '<' | '>' if before.ends_with("operator") || before.ends_with("operator<") => {
                return name;
            }
            '>' if before.ends_with('-') => {}
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 && at > 0 => {
                let rest = &name[at..];
                let part_of_name = rest.starts_with("(anonymous namespace)")
                    || before.ends_with("operator")
                    || before.ends_with("decltype")
                    || before.ends_with(' ');
                if !part_of_name {
                    // A lambda or local class continues after its function's parameters.
                    return if rest.contains(")::") { name } else { before };
                }
            }
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_go_and_names_stay() {
        for (full, short) in [
            ("main", "main"),
            ("at::empty(c10::ArrayRef<long>, int)", "at::empty"),
            ("void f<g(int)>(int) const", "void f<g(int)>"),
            (
                "(anonymous namespace)::grow(int)",
                "(anonymous namespace)::grow",
            ),
            (
                "a::(anonymous namespace)::b(int)",
                "a::(anonymous namespace)::b",
            ),
            ("T::operator()(int) const", "T::operator()"),
            (
                "f(int)::{lambda()#1}::operator()() const",
                "f(int)::{lambda()#1}::operator()() const",
            ),
            ("a::operator<(int)", "a::operator<(int)"),
        ] {
            assert_eq!(without_parameters(full), short);
        }
    }

    #[test]
    fn only_long_names_lose_their_template_arguments() {
        assert_eq!(
            readable("std::vector<int>::push_back(int)"),
            "std::vector<int>::push_back"
        );
        let long = format!(
            "c10::wrap_<f<{}>, (int)3>::call(int)",
            "at::Tensor, ".repeat(20)
        );
        assert_eq!(readable(&long), "c10::wrap_<…>::call");
    }

    /// This very test is a file with symbols; its own function must be found through its build id,
    /// and must not be found under another one.
    #[test]
    fn a_function_is_found_in_the_build_that_ran_and_in_no_other() {
        let path = std::env::current_exe().expect("path of the test");
        let path = path.to_str().expect("plain path").to_owned();
        let Ok(Some(build_id)) = read_elf_build_id(&path) else {
            panic!("tests are linked with a build id");
        };
        let mut frame = NativeFrame {
            address: 0,
            module: Some(0),
        };
        let symbolizer = Symbolizer::new();
        let function = symbolizer
            .symbolize_single(&Source::Elf(Elf::new(&path)), Input::VirtOffset(0))
            .ok();
        assert!(
            function.is_none_or(|found| found.as_sym().is_none()),
            "nothing lies at 0"
        );
        let inspector = blazesym::inspect::Inspector::new();
        let source =
            blazesym::inspect::source::Source::Elf(blazesym::inspect::source::Elf::new(&path));
        let main = inspector.lookup(&source, &["main"]).expect("look-up")[0][0].addr;
        frame.address = 0x10_0000 + main + 2;
        let module = |build_id: Vec<u8>| {
            let mut names = Names::default();
            let module = Module {
                id: gpumem_capture::ModuleId(1),
                bias: 0x10_0000,
                start: 0x10_0000,
                end: u64::MAX,
                path: path.clone(),
                build_id,
            };
            names.modules.push(module);
            names
        };
        assert_eq!(
            Symbols::new().name(&module(build_id.to_vec()), &frame),
            "main"
        );
        let basename = path.rsplit('/').next().expect("a name");
        let elsewhere = format!("{basename}+{:#x}", main + 1);
        assert_eq!(
            Symbols::new().name(&module(vec![1, 2, 3]), &frame),
            elsewhere
        );
        assert_eq!(Symbols::new().name(&module(Vec::new()), &frame), elsewhere);
    }
}
