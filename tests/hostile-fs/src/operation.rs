//! The kinds of requests that rules can name.

/// Declares the kinds with their names in commands.
macro_rules! operations {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// A kind of request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation { $($(#[$doc])* $kind,)* }

        impl Operation {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The name in commands and in the answer to `counts`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }
        }
    };
}

operations! {
    Lookup = "lookup",
    Getattr = "getattr",
    /// Mode, owner or times.
    Setattr = "setattr",
    /// A new length.
    Truncate = "truncate",
    Mkdir = "mkdir",
    Unlink = "unlink",
    Rmdir = "rmdir",
    Rename = "rename",
    Link = "link",
    Create = "create",
    Open = "open",
    Read = "read",
    /// By `write` and its relatives.
    Write = "write",
    /// Pages that were changed through a mapping.
    Writeback = "writeback",
    /// One of a file's descriptors is closed.
    Flush = "flush",
    /// The last of them is closed. The client does not wait for the answer.
    Release = "release",
    Fsync = "fsync",
    Readdir = "readdir",
    Statfs = "statfs",
    Fallocate = "fallocate",
}

/// Requests that change stored data.
const MODIFYING: &[Operation] = &[
    Operation::Setattr,
    Operation::Truncate,
    Operation::Mkdir,
    Operation::Unlink,
    Operation::Rmdir,
    Operation::Rename,
    Operation::Link,
    Operation::Create,
    Operation::Write,
    Operation::Writeback,
    Operation::Fsync,
    Operation::Fallocate,
];

/// A set of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operations(u32);

impl Operations {
    /// Parses names between commas: kinds, `all`, `modify` (requests that change stored data) and `data`
    /// (`write` and `writeback`).
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut found = 0;
        for word in text.split(',') {
            let kinds = match word {
                "all" => Operation::ALL,
                "modify" => MODIFYING,
                "data" => &[Operation::Write, Operation::Writeback],
                _ => {
                    let kind = Operation::ALL.iter().position(|kind| kind.name() == word);
                    let place = kind.ok_or_else(|| format!("no operation is named {word}"))?;
                    &Operation::ALL[place..=place]
                }
            };
            found |= kinds.iter().fold(0, |bits, &kind| bits | bit(kind));
        }
        Ok(Self(found))
    }

    /// Whether a kind is in the set.
    pub fn contains(self, kind: Operation) -> bool {
        self.0 & bit(kind) != 0
    }
}

fn bit(kind: Operation) -> u32 {
    1 << kind as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_names() {
        let set = Operations::parse("write,fsync").unwrap();
        assert!(set.contains(Operation::Write) && set.contains(Operation::Fsync));
        assert!(!set.contains(Operation::Writeback));
        let all = Operations::parse("all").unwrap();
        assert!(Operation::ALL.iter().all(|&kind| all.contains(kind)));
        assert!(
            !Operations::parse("modify")
                .unwrap()
                .contains(Operation::Getattr)
        );
        assert!(Operations::parse("writes").is_err());
    }
}
