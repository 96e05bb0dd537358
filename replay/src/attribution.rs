//! Which line of whose code an allocation belongs to.

use gpumem_capture::{Level, PyFrame, StackId};

use crate::StackKey;
use crate::backward::{Backward, Origin, chain};
use crate::classes::class;
use crate::names::{Code, Names};

/// A line of Python code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// File as the interpreter has it.
    pub file: String,
    /// Line number.
    pub line: u32,
    /// Qualified name of the function.
    pub function: String,
}

/// Who made an allocation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A line of Python code; with the class of the autograd node that allocated, if the line is that of
    /// the node's forward.
    Line(Line, Option<String>),
    /// An autograd node, the line of whose forward is not known.
    Node {
        /// The node's class.
        class: String,
        /// Whether there is such a line, and the capture does not have it.
        lost: bool,
    },
    /// Code with no Python on its thread: the library that allocated.
    Library(String),
    /// Neither stack says.
    Unknown,
    /// Stacks that a bounded capture has let go of.
    LetGo,
    /// A workspace that cuBLAS was given at a call of this one's.
    Workspace(Box<Owner>),
}

/// Finds the owner of an allocation: the newest line of the user's own code, or, where a stack has
/// none, the newest Python line at all, or the library. What an autograd node allocated is the line's
/// that made the node, unless code of the user's own ran in it.
pub fn owner(names: &Names, stacks: StackKey, level: Level) -> Owner {
    let owner = match names.backwards.get(&stacks.py) {
        None if stacks.py == StackId::LET_GO => Owner::LetGo,
        Some(ran) => owner_in_backward(names, ran),
        None => match newest_line(names, stacks.py) {
            Some(line) => Owner::Line(line, None),
            None => library(names, stacks, level).map_or(Owner::Unknown, Owner::Library),
        },
    };
    if stacks.work.is_workspace() {
        return Owner::Workspace(Box::new(owner));
    }
    owner
}

fn owner_in_backward(names: &Names, ran: &Backward) -> Owner {
    if let Some(line) = newer_line(names, ran) {
        return Owner::Line(line, None);
    }
    let class = class(names.node(ran.node));
    let (chain, origin) = chain(names, ran);
    let made = chain[1..].iter();
    let in_another = made.map(|made_by| newer_line(names, made_by));
    let line = in_another.flatten().next().or_else(|| match origin {
        Origin::Forward(stack) => newest_line(names, stack),
        Origin::NoPython | Origin::Lost => None,
    });
    match line {
        Some(line) => Owner::Line(line, Some(class)),
        None => Owner::Node {
            class,
            lost: origin != Origin::NoPython,
        },
    }
}

/// The newest line of the user's own code that ran in a node.
fn newer_line(names: &Names, ran: &Backward) -> Option<Line> {
    coded(names, ran.newer_frames(names))
        .find(|(_, code)| is_user_code(&code.file))
        .and_then(|found| line(names, found))
}

fn frames(names: &Names, stack: StackId) -> impl DoubleEndedIterator<Item = (&PyFrame, &Code)> {
    let frames = names.py_stacks.get(&stack);
    coded(names, frames.map_or(&[][..], |(frames, _)| frames))
}

/// Frames with their code, those left out whose code is not in the capture.
fn coded<'a>(
    names: &'a Names,
    frames: &'a [PyFrame],
) -> impl DoubleEndedIterator<Item = (&'a PyFrame, &'a Code)> {
    frames
        .iter()
        .filter_map(|frame| Some((frame, names.codes.get(&frame.code)?)))
}

fn line(names: &Names, (frame, code): (&PyFrame, &Code)) -> Option<Line> {
    let line = names.line(frame)?;
    Some(Line {
        file: code.file.clone(),
        line,
        function: code.name.clone(),
    })
}

fn newest_line(names: &Names, stack: StackId) -> Option<Line> {
    frames(names, stack)
        .find(|(_, code)| is_user_code(&code.file))
        .or_else(|| frames(names, stack).next())
        .and_then(|found| line(names, found))
}

/// The line of the program itself that is at work: the newest frame in the script. The script is the
/// file of the user's own code whose body (`<module>`) is running, the newest if one runs another; where
/// none is, as in a thread, that of the oldest frame of the user's own code.
/// A node of autograd's counts for the line that its thread was at.
pub fn script_line(names: &Names, stack: StackId) -> Option<Line> {
    let stack = names.own_stack(stack);
    let own = || frames(names, stack).filter(|(_, code)| is_user_code(&code.file));
    let script = own()
        .find(|(_, code)| code.name == "<module>")
        .or_else(|| own().next_back())
        .or_else(|| frames(names, stack).next_back())
        .map(|(_, code)| &code.file)?;
    let newest = frames(names, stack).find(|(_, code)| code.file == *script)?;
    line(names, newest)
}

/// Whether a stack that is within an optimizer's step is in the closure that some optimizers (LBFGS) run
/// to have the loss again: the newest frame of the user's own code then stands on a frame of an
/// optimizer's file. An optimizer of the user's own stands on the base class's file.
pub fn is_in_closure(names: &Names, stack: StackId) -> bool {
    let mut older =
        frames(names, names.own_stack(stack)).skip_while(|(_, code)| !is_user_code(&code.file));
    older
        .find_map(|(_, code)| code.file.rsplit_once("/torch/optim/"))
        .is_some_and(|(_, file)| file != "optimizer.py")
}

/// Whether a file is the user's own code: not an installed package, the standard library or code that
/// the interpreter or a library made up. Notebook cells, `<stdin>` and `<string>` are the user's.
pub fn is_user_code(file: &str) -> bool {
    if let Some(made_up) = file.strip_prefix('<') {
        return ["stdin>", "string>", "ipython-input"]
            .iter()
            .any(|own| made_up.starts_with(own));
    }
    let installed = file.contains("/site-packages/") || file.contains("/dist-packages/");
    // What torch.compile writes into its cache is a library's work, whoever asked for it.
    let generated = file.contains("/torchinductor_") || file.contains("/.triton/");
    !installed && !generated && !is_standard_library(file)
}

/// Whether a path runs through `lib/pythonX.Y/` or `lib/pythonXY.zip/`.
fn is_standard_library(file: &str) -> bool {
    ["/lib/python", "/lib64/python"].iter().any(|folder| {
        file.match_indices(folder).any(|(at, folder)| {
            let rest = &file[at + folder.len()..];
            let digits = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(rest.len());
            digits > 0 && rest[digits..].starts_with(['/', 't', 'z'])
        })
    })
}

/// The library that owns an allocation: the one that made the call; where that is CUDA's own or not
/// known, the newest native frame outside CUDA's own libraries and ours; for tensors also outside
/// PyTorch's allocator, through which all tensors go. The program itself goes by its file's name.
pub fn library(names: &Names, stacks: StackKey, level: Level) -> Option<String> {
    let caller = stacks
        .caller
        .module()
        .and_then(|index| names.modules.get(index as usize))
        .map(|module| module.basename())
        .filter(|name| !is_cuda(name));
    if let Some(caller) = caller {
        return Some(caller.to_owned());
    }
    let (frames, _) = names.native_stacks.get(&stacks.native)?;
    frames
        .iter()
        .filter_map(|frame| names.module(frame))
        .map(|module| module.basename())
        .find(|name| !is_cuda(name) && (level != Level::TENSOR || !name.starts_with("libc10")))
        .map(str::to_owned)
}

/// Whether a library is CUDA's runtime or driver, through which all calls go, or ours.
fn is_cuda(library: &str) -> bool {
    library.starts_with("libcuda") || library.starts_with("libgpumem")
}

const WORKSPACE: &str = " (cuBLAS workspace)";

impl Owner {
    /// The owner as tables show it: `train.py:88`, `train.py:88 (backward: ConvolutionBackward0)`,
    /// `(no Python: libtorch_cuda.so)`.
    pub fn label(&self, names: &Names) -> String {
        match self {
            Self::Line(line, _) => {
                let place = names.short_path(&line.file);
                format!("{place}:{}{}", line.line, self.note())
            }
            Self::Node { class, lost: true } => format!("(backward: {class}, forward line lost)"),
            Self::Node { class, lost: false } => {
                format!("(backward: {class}, no Python in its forward)")
            }
            Self::Library(library) => format!("(no Python: {library})"),
            Self::Unknown => "(no stack)".into(),
            Self::LetGo => "(other stacks: bounded)".into(),
            Self::Workspace(of) => format!("{}{WORKSPACE}", of.label(names)),
        }
    }

    /// What stands after the line in the label.
    pub fn note(&self) -> String {
        match self {
            Self::Line(_, Some(class)) => format!(" (backward: {class})"),
            Self::Workspace(of) => format!("{}{WORKSPACE}", of.note()),
            Self::Line(_, None)
            | Self::Node { .. }
            | Self::Library(_)
            | Self::Unknown
            | Self::LetGo => String::new(),
        }
    }

    /// The line, where one is known.
    pub fn line(&self) -> Option<&Line> {
        match self {
            Self::Line(line, _) => Some(line),
            Self::Workspace(of) => of.line(),
            Self::Node { .. } | Self::Library(_) | Self::Unknown | Self::LetGo => None,
        }
    }

    /// The class of the autograd node that allocated for the line.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Line(_, class) => class.as_deref(),
            Self::Node { class, .. } => Some(class),
            Self::Workspace(of) => of.node(),
            Self::Library(_) | Self::Unknown | Self::LetGo => None,
        }
    }

    /// Whether it is a workspace of cuBLAS.
    pub fn is_workspace(&self) -> bool {
        matches!(self, Self::Workspace(_))
    }

    /// The library, where no Python line is known.
    pub fn library(&self) -> Option<String> {
        match self {
            Self::Library(library) => Some(library.clone()),
            Self::Workspace(of) => of.library(),
            Self::Line(..) | Self::Node { .. } | Self::Unknown | Self::LetGo => None,
        }
    }

    /// The function, empty where there is none.
    pub fn function(&self) -> &str {
        self.line().map_or("", |line| &line.function)
    }
}

#[cfg(test)]
mod tests {
    use gpumem_capture::{CodeId, Definition};

    use super::*;
    use crate::{Stage, Work};

    #[test]
    fn user_code_is_told_from_what_is_installed() {
        for own in [
            "/home/me/train.py",
            "train.py",
            "<stdin>",
            "<string>",
            "<ipython-input-3-abc>",
            "/tmp/ipykernel_77/123.py",
            "/home/me/lib/pythonic/net.py",
            "/home/me/lib/python_tools/net.py",
        ] {
            assert!(is_user_code(own), "{own}");
        }
        for other in [
            "/tmp/torchinductor_me/cd/ccdf5xt2.py",
            "/env/lib/python3.12/site-packages/torch/nn/modules/conv.py",
            "/usr/lib/python3/dist-packages/x.py",
            "/usr/lib/python3.10/threading.py",
            "/usr/lib64/python3.9/runpy.py",
            "/opt/lib/python3.13t/threading.py",
            "/usr/lib/python312.zip/runpy.py",
            "<frozen runpy>",
            "<frozen importlib._bootstrap>",
            "<eval_with_key>.5",
        ] {
            assert!(!is_user_code(other), "{other}");
        }
    }

    #[test]
    fn cuda_itself_owns_nothing() {
        for cuda in [
            "libcuda.so.1",
            "libcudart.so.13",
            "libcudart-80664282.so.10.2",
            "libgpumem.so",
        ] {
            assert!(is_cuda(cuda), "{cuda}");
        }
        for other in [
            "libcudnn.so.9",
            "libcublas.so.13",
            "libc10_cuda.so",
            "python3.12",
        ] {
            assert!(!is_cuda(other), "{other}");
        }
    }

    const NET: &str = "/home/me/net.py";
    const CONV: &str = "/env/lib/python3.12/site-packages/torch/nn/modules/conv.py";
    const ADAM: &str = "/env/lib/python3.12/site-packages/torch/optim/adam.py";
    const LBFGS: &str = "/env/lib/python3.12/site-packages/torch/optim/lbfgs.py";
    const BASE: &str = "/env/lib/python3.12/site-packages/torch/optim/optimizer.py";

    /// Defines a Python stack, the newest frame first.
    fn python(names: &mut Names, id: u32, lines: &[(&str, u32)]) {
        let mut frames = Vec::new();
        for (index, (file, first_line)) in lines.iter().enumerate() {
            let code = CodeId(id * 100 + index as u32);
            names.define(&Definition::Code {
                id: code,
                first_line: *first_line,
                file: (*file).into(),
                name: "f".into(),
                line_table: Vec::new(),
            });
            frames.push(PyFrame {
                code,
                offset: 0,
                entered_from_c: true,
            });
        }
        names.define(&Definition::PyStack {
            id: StackId(id),
            truncated: false,
            frames,
        });
    }

    /// Defines a run of the node `Of<id>`.
    fn node(names: &mut Names, id: u32, forward: u32, (own, newer): (u32, u32), lost: bool) {
        let class = format!("Of{id}");
        names.define(&Definition::Backward {
            id: StackId(id),
            lost,
            forward: StackId(forward),
            own: StackId(own),
            newer,
            node: format!("N5torch{}{class}E", class.len()),
        });
    }

    fn label(names: &Names, stack: u32) -> String {
        let py = StackId(stack);
        let stacks = StackKey {
            py,
            ..StackKey::default()
        };
        owner(names, stacks, Level::TENSOR).label(names)
    }

    /// Stacks 1 and 2: forwards of the user's lines 88 and 91; 3: a thread that runs a line of the
    /// user's above one of a library; 4: one of a library alone.
    fn names() -> Names {
        let mut names = Names::default();
        python(&mut names, 1, &[(CONV, 5), (NET, 88)]);
        python(&mut names, 2, &[(NET, 91)]);
        python(&mut names, 3, &[(CONV, 6), (NET, 7), (CONV, 8), (NET, 9)]);
        python(&mut names, 4, &[(CONV, 5)]);
        names
    }

    #[test]
    fn a_node_allocates_for_the_line_of_its_forward() {
        let mut names = names();
        node(&mut names, 11, 1, (0, 0), false);
        node(&mut names, 12, 1, (3, 0), false);
        node(&mut names, 13, 4, (0, 0), false);
        assert_eq!(label(&names, 11), "/home/me/net.py:88 (backward: Of11)");
        assert_eq!(
            label(&names, 12),
            "/home/me/net.py:88 (backward: Of12)",
            "what waits for the engine is older than the node"
        );
        assert_eq!(
            label(&names, 13),
            "torch/nn/modules/conv.py:5 (backward: Of13)"
        );
    }

    #[test]
    fn the_users_own_code_in_a_node_comes_first_and_a_librarys_does_not() {
        let mut names = names();
        for (id, newer, lost) in [(11, 1, false), (12, 2, false), (13, 9, true), (14, 1, true)] {
            node(&mut names, id, 1, (3, newer), lost);
        }
        assert_eq!(label(&names, 11), "/home/me/net.py:88 (backward: Of11)");
        assert_eq!(label(&names, 12), "/home/me/net.py:7");
        assert_eq!(label(&names, 13), "/home/me/net.py:7");
        assert_eq!(label(&names, 14), "(backward: Of14, forward line lost)");
    }

    #[test]
    fn what_is_lost_or_never_was_is_no_line() {
        let mut names = names();
        node(&mut names, 11, 1, (3, 0), true);
        node(&mut names, 12, 0, (3, 0), false);
        node(&mut names, 13, 99, (0, 0), false);
        for (id, label_of, lost) in [
            (11, "(backward: Of11, forward line lost)", true),
            (12, "(backward: Of12, no Python in its forward)", false),
            (13, "(backward: Of13, forward line lost)", true),
        ] {
            let py = StackId(id);
            let stacks = StackKey {
                py,
                ..StackKey::default()
            };
            let owner = owner(&names, stacks, Level::TENSOR);
            assert_eq!(owner.label(&names), label_of);
            let class = format!("Of{id}");
            assert_eq!(owner, Owner::Node { class, lost });
            assert_eq!((owner.line(), owner.library()), (None, None));
        }
        assert!(names.has_python(StackId(12)) && !names.has_python(StackId(13)));
    }

    #[test]
    fn a_node_that_a_node_made_goes_back_to_the_same_forward() {
        let mut names = names();
        node(&mut names, 11, 1, (0, 0), false);
        node(&mut names, 12, 11, (0, 0), false);
        node(&mut names, 13, 12, (4, 1), false);
        // This one was made by the user's code within another node.
        node(&mut names, 21, 1, (3, 2), true);
        node(&mut names, 22, 21, (0, 0), false);
        node(&mut names, 31, 2, (0, 0), true);
        node(&mut names, 32, 31, (0, 0), false);
        assert_eq!(label(&names, 13), "/home/me/net.py:88 (backward: Of13)");
        assert_eq!(label(&names, 22), "/home/me/net.py:7 (backward: Of22)");
        assert_eq!(label(&names, 32), "(backward: Of32, forward line lost)");
    }

    #[test]
    fn chains_that_never_end_are_lost() {
        let mut names = names();
        node(&mut names, 11, 11, (11, 3), false);
        node(&mut names, 12, 13, (0, 0), false);
        node(&mut names, 13, 12, (0, 0), false);
        for id in 1000..100_000 {
            node(&mut names, id, id + 1, (0, 0), false);
        }
        for id in [11, 12, 1000] {
            assert_eq!(
                label(&names, id),
                format!("(backward: Of{id}, forward line lost)")
            );
        }
        assert!(script_line(&names, StackId(11)).is_none());
    }

    #[test]
    fn a_workspace_is_its_callers() {
        let mut names = names();
        node(&mut names, 11, 1, (0, 0), false);
        let of = |py, native| {
            let stacks = StackKey {
                py: StackId(py),
                native: StackId(native),
                work: Work::new(Stage::Outside, true),
                ..StackKey::default()
            };
            owner(&names, stacks, Level::TENSOR)
        };
        let (forward, backward, nobody) = (of(2, 0), of(11, 0), of(0, 0));
        let labels = [&forward, &backward, &nobody].map(|owner| owner.label(&names));
        assert_eq!(
            labels,
            [
                "/home/me/net.py:91 (cuBLAS workspace)",
                "/home/me/net.py:88 (backward: Of11) (cuBLAS workspace)",
                "(no stack) (cuBLAS workspace)",
            ]
        );
        assert_eq!(backward.line().map(|line| line.line), Some(88));
        assert_eq!(backward.node(), Some("Of11"));
        assert_ne!(forward, of(1, 0));
    }

    #[test]
    fn a_closure_is_told_from_the_optimizer_that_runs_it() {
        let mut names = Names::default();
        python(&mut names, 1, &[(ADAM, 1), (BASE, 2), (NET, 3)]);
        python(
            &mut names,
            2,
            &[(CONV, 1), (NET, 2), (LBFGS, 3), (BASE, 4), (NET, 5)],
        );
        python(&mut names, 3, &[(ADAM, 1), (NET, 2), (BASE, 3), (NET, 4)]);
        assert!(!is_in_closure(&names, StackId(1)));
        assert!(is_in_closure(&names, StackId(2)));
        assert!(
            !is_in_closure(&names, StackId(3)),
            "the user's own optimizer"
        );
        assert!(!is_in_closure(&names, StackId::NONE));
    }
}
