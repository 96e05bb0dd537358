//! Paths of source files: as the interpreter has them, absolute, and relative to the program's folder.

use super::Names;

impl Names {
    /// A file's absolute name without `.`, `..` and doubled slashes. The file system is not read. Names of no file
    /// (`<string>`) are unchanged, and so are relative names if the program's folder is unknown.
    pub fn absolute_path(&self, file: &str) -> String {
        match self.directory() {
            _ if is_none(file) => file.to_owned(),
            Some(directory) if !file.starts_with('/') => normal(&format!("{directory}/{file}")),
            _ => normal(file),
        }
    }

    /// The name relative to the folder in which the program was started, if it is below that.
    pub fn relative_path(&self, file: &str) -> Option<String> {
        if is_none(file) {
            return None;
        }
        let absolute = self.absolute_path(file);
        if !absolute.starts_with('/') {
            return Some(absolute);
        }
        let directory = normal(self.directory()?);
        let below = match directory.as_str() {
            "/" => absolute.strip_prefix('/'),
            folder => absolute.strip_prefix(folder)?.strip_prefix('/'),
        };
        below.map(str::to_owned)
    }
}

/// Whether the interpreter's name refers to no file.
fn is_none(file: &str) -> bool {
    file.is_empty() || file.starts_with('<')
}

fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let is_absolute = path.starts_with('/');
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            // The parent of the root is the root.
            ".." if is_absolute => {}
            part => parts.push(part),
        }
    }
    let root = if is_absolute { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use gpumem_capture::{Definition, ProcessKey};

    use super::*;

    fn started_in(directory: &str) -> Names {
        let mut names = Names::default();
        names.define(&Definition::Process {
            key: ProcessKey::DIRECTORY.into(),
            value: directory.into(),
        });
        names
    }

    #[test]
    fn a_file_is_told_absolute_and_from_the_program_s_folder() {
        let names = started_in("/home/me/run");
        let both = |file: &str| (names.absolute_path(file), names.relative_path(file));
        let here = |end: &str| (format!("/home/me/run/{end}"), Some(end.to_owned()));
        assert_eq!(both("train.py"), here("train.py"));
        assert_eq!(both("./lib/../net.py"), here("net.py"));
        assert_eq!(both("/home/me/run//net.py"), here("net.py"));
        assert_eq!(both("../other.py"), ("/home/me/other.py".into(), None));
        assert_eq!(both("/home/me/runs/a.py").1, None);
        assert_eq!(both("/../a.py"), ("/a.py".into(), None));
        assert_eq!(both("<string>"), ("<string>".into(), None));
        assert_eq!(started_in("/").relative_path("/a.py"), Some("a.py".into()));
    }

    #[test]
    fn a_folder_that_is_not_known_leaves_names_relative() {
        let names = Names::default();
        assert_eq!(names.absolute_path("./a/../../b.py"), "../b.py");
        assert_eq!(names.relative_path("./b.py"), Some("b.py".into()));
        assert_eq!(names.relative_path("/b.py"), None);
    }
}
