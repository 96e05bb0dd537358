//! Which line of whose code an allocation belongs to.

use gpumem_capture::{Level, PyFrame, StackId};

use crate::names::{Code, Names};
use crate::replay::StackKey;

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
    /// A line of Python code.
    Line(Line),
    /// Code with no Python on its thread: the library that allocated.
    Library(String),
    /// Neither stack says.
    Unknown,
}

/// Finds the owner of an allocation: the newest line of the user's own code, or, where a stack has
/// none, the newest Python line at all, or the library.
pub fn owner(names: &Names, stacks: StackKey, level: Level) -> Owner {
    if let Some(line) = newest_line(names, stacks.py) {
        return Owner::Line(line);
    }
    match library(names, stacks, level) {
        Some(library) => Owner::Library(library),
        None => Owner::Unknown,
    }
}

fn frames(names: &Names, stack: StackId) -> impl DoubleEndedIterator<Item = (&PyFrame, &Code)> {
    names
        .py_stacks
        .get(&stack)
        .map_or(&[][..], |(frames, _)| frames)
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
pub fn script_line(names: &Names, stack: StackId) -> Option<Line> {
    let own = || frames(names, stack).filter(|(_, code)| is_user_code(&code.file));
    let script = own()
        .find(|(_, code)| code.name == "<module>")
        .or_else(|| own().next_back())
        .or_else(|| frames(names, stack).next_back())
        .map(|(_, code)| &code.file)?;
    let newest = frames(names, stack).find(|(_, code)| code.file == *script)?;
    line(names, newest)
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

impl Owner {
    /// The owner as tables show it: `train.py:88`, `(no Python: libtorch_cuda.so)`.
    pub fn label(&self, names: &Names) -> String {
        match self {
            Self::Line(line) => format!("{}:{}", names.short_path(&line.file), line.line),
            Self::Library(library) => format!("(no Python: {library})"),
            Self::Unknown => "(no stack)".into(),
        }
    }

    /// The library, where no Python line is known.
    pub fn library(&self) -> Option<String> {
        match self {
            Self::Library(library) => Some(library.clone()),
            Self::Line(_) | Self::Unknown => None,
        }
    }

    /// The function, empty where there is none.
    pub fn function(&self) -> &str {
        match self {
            Self::Line(line) => &line.function,
            Self::Library(_) | Self::Unknown => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
