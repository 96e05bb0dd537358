//! Which Python files are the user's own code.

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

/// Whether a file is of what `gpumem plan` runs inside the program, which no row may name.
pub fn is_planner(file: &str) -> bool {
    file.contains("/gpumem/_plan/inside/")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_code_is_distinguished_from_installed_code() {
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
}
