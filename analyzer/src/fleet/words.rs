//! Names in the dataset: each once in memory, and replaced by hashes if the options request that.

use std::sync::Arc;

use gpumem_dataset::{Hash, Keyed};
use rustc_hash::FxHashMap;

use super::options::Options;

/// Public libraries: their names reveal nothing about the program.
const PUBLIC: &[&str] = &[
    "libtorch",
    "libc10",
    "libcu",
    "libnv",
    "libnccl",
    "libc.so",
    "libpython",
    "python",
];
/// The class name of PyTorch's own autograd nodes, which a number follows. The program's own functions have no
/// number.
const NODES: &str = "Backward";

/// Names by their texts.
pub(super) struct Words<'a> {
    secret: Option<&'a [u8]>,
    hashes: bool,
    known: FxHashMap<String, Arc<str>>,
    hashed: FxHashMap<String, Arc<str>>,
}

impl<'a> Words<'a> {
    pub fn new(options: &'a Options) -> Self {
        Self {
            secret: options.secret.as_deref(),
            hashes: options.hash_paths,
            known: FxHashMap::default(),
            hashed: FxHashMap::default(),
        }
    }

    /// Whether hashes stand for names.
    pub fn are_hashed(&self) -> bool {
        self.hashes
    }

    /// Begins a key of something of this kind.
    pub fn keyed(&self, kind: &str) -> Keyed {
        Keyed::by(self.secret, kind)
    }

    /// Begins a hash of several values.
    fn hash(&self) -> Hash {
        Hash::new(self.secret)
    }

    /// A text without hashing.
    pub fn plain(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.known.insert(text.to_owned(), Arc::clone(&new));
        new
    }

    /// A name, or its hash.
    pub fn name(&mut self, text: &str) -> Arc<str> {
        if !self.hashes {
            return self.plain(text);
        }
        if let Some(known) = self.hashed.get(text) {
            return Arc::clone(known);
        }
        let mut hash = self.hash();
        hash.update(text.as_bytes());
        let new: Arc<str> = format!("hash:{:016x}", hash.first()).into();
        self.hashed.insert(text.to_owned(), Arc::clone(&new));
        new
    }

    /// A library's file name; unhashed if the library is public.
    pub fn library(&mut self, name: &str) -> Arc<str> {
        match PUBLIC.iter().any(|public| name.starts_with(public)) {
            true => self.plain(name),
            false => self.name(name),
        }
    }

    /// The class of a node of autograd; unhashed if it is PyTorch's own.
    pub fn node(&mut self, class: &str) -> Arc<str> {
        let numbered = class.trim_end_matches(|c: char| c.is_ascii_digit());
        let is_numbered = numbered.len() < class.len() && numbered.ends_with(NODES);
        match is_numbered || class == "AccumulateGrad" {
            true => self.plain(class),
            false => self.name(class),
        }
    }

    /// A sentence. Paths in it are hashed. A path may have spaces, so all of a clause from a path on is hashed. If the
    /// path is a relative one, so is what precedes it in the clause.
    pub fn sentence(&mut self, text: &str) -> String {
        const ENDS: [&str; 2] = [": ", "; "];
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        while !rest.is_empty() {
            let end = ENDS.iter().filter_map(|end| rest.find(end)).min();
            let (clause, next) = rest.split_at(end.unwrap_or(rest.len()));
            match start_of_path(clause) {
                Some(start) => {
                    out.push_str(&clause[..start]);
                    out.push_str(&self.name(&clause[start..]));
                }
                None => out.push_str(clause),
            }
            let (end, next) = next.split_at(next.len().min(2));
            out.push_str(end);
            rest = next;
        }
        out
    }
}

/// Where a clause's first path may begin.
fn start_of_path(clause: &str) -> Option<usize> {
    let slash = clause.find('/')?;
    let word = clause[..slash].rfind(' ').map_or(0, |space| space + 1);
    let is_absolute = !clause[word..slash].contains(char::is_alphanumeric);
    Some(if is_absolute { word } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_everybody_has_keeps_its_name() {
        let options = Options {
            hash_paths: true,
            ..Options::default()
        };
        let mut words = Words::new(&options);
        for (name, stays) in [
            ("libtorch_cuda.so", true),
            ("libcudart.so.13", true),
            ("python3.12", true),
            ("libours.so", false),
            ("my-libtorch.so", false),
        ] {
            assert_eq!(&*words.library(name) == name, stays, "{name}");
        }
        for (class, stays) in [
            ("AddmmBackward0", true),
            ("AccumulateGrad", true),
            ("OursBackward", false),
            ("Ours0", false),
        ] {
            assert_eq!(&*words.node(class) == class, stays, "{class}");
        }
        assert_eq!(
            words.sentence("2 events lost; 3 damaged"),
            "2 events lost; 3 damaged"
        );
    }

    #[test]
    fn no_part_of_a_path_in_a_sentence_stays() {
        let options = Options {
            hash_paths: true,
            ..Options::default()
        };
        let mut words = Words::new(&options);
        let hash = words.name("/home/me/My Secret Plan/x y.bin").to_string();
        let said = words
            .sentence("cannot write /home/me/My Secret Plan/x y.bin: disk full; 2 events lost");
        assert_eq!(
            said,
            format!("cannot write {hash}: disk full; 2 events lost")
        );
        for text in [
            "cannot read My Secret Plan/x: full",
            "(/home/My Secret Plan) is gone",
            "a /b My; c/My Secret",
        ] {
            let said = words.sentence(text);
            assert!(
                !["My", "Secret", "Plan"]
                    .iter()
                    .any(|part| said.contains(part)),
                "{said}"
            );
        }
    }
}
