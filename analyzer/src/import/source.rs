//! Distinguishes Python, libraries and C++ in PyTorch's lists of frames.

/// Where a frame's code comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Python,
    /// The file is a library or a program.
    Library,
    /// The file is C++ source, or unknown.
    Cpp,
}

impl Source {
    /// From the file and the function of a frame.
    pub fn of(file: &str, name: &str) -> Self {
        let base = file.rsplit('/').next().unwrap_or_default();
        let extension = base.rsplit_once('.').map_or("", |(_, extension)| extension);
        let is_cpp = |extension: &str| {
            matches!(
                extension,
                "c" | "cc"
                    | "cpp"
                    | "cxx"
                    | "cu"
                    | "cuh"
                    | "h"
                    | "hh"
                    | "hpp"
                    | "hxx"
                    | "inc"
                    | "inl"
                    | "ipp"
                    | "tcc"
                    | "S"
                    | "asm"
                    | "rs"
            )
        };
        let of_native = name == "??"
            || name == "_start"
            || name.starts_with("__libc_start")
            || name.contains("::")
            || name.contains('(');
        match base {
            "" | "??" => Self::Cpp,
            _ if base.ends_with(".so") || base.contains(".so.") => Self::Library,
            _ if is_cpp(extension) => Self::Cpp,
            // A program: the interpreter, or one in C++.
            _ if !base.starts_with('<')
                && !base.ends_with(".py")
                && (of_native || base.starts_with("python")) =>
            {
                Self::Library
            }
            _ => Self::Python,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_frames_are_told_from_pythons() {
        for (file, name, source) in [
            ("/home/me/train.py", "<module>", Source::Python),
            ("<stdin>", "<module>", Source::Python),
            ("<frozen runpy>", "_run_code", Source::Python),
            ("<ipython-input-3-abc>", "f", Source::Python),
            ("/env/bin/torchrun", "<module>", Source::Python),
            ("/home/me/python_tools.py", "f", Source::Python),
            ("/env/torch/lib/libc10_cuda.so", "??", Source::Library),
            ("/lib/libpython3.12.so.1.0", "Py_RunMain", Source::Library),
            ("/usr/bin/python3.12", "_start", Source::Library),
            ("/home/me/serve", "torch::nn::f(int)", Source::Library),
            ("??", "at::empty(long)", Source::Cpp),
            ("", "", Source::Cpp),
            ("/pytorch/c10/core/Allocator.cpp", "f", Source::Cpp),
        ] {
            assert_eq!(Source::of(file, name), source, "{file} {name}");
        }
    }
}
