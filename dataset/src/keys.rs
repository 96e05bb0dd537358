//! Keys: hashes of content, so that ranks, runs and versions of the code join without a common list of numbers.

use serde::{Deserialize, Serialize};

use crate::mac::Mac;

/// The first eight bytes of a SHA-256, big-endian, as a signed number, because not every engine has unsigned ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key(pub i64);

/// A key under construction.
pub struct Keyed(Mac);

impl Keyed {
    /// Begins the key of a thing of this kind (`line`, `stack`, `capture`).
    pub fn new(kind: &str) -> Self {
        Self::by(None, kind)
    }

    /// The same with a secret, if there is one. Without the secret, the hashed text cannot be found by trial.
    pub fn by(secret: Option<&[u8]>, kind: &str) -> Self {
        Self(Mac::new(secret)).with(kind)
    }

    /// Adds a part. Its length is hashed before it, so that the boundary between parts is unambiguous.
    pub fn with(mut self, part: &str) -> Self {
        self.0.update(&(part.len() as u64).to_be_bytes());
        self.0.update(part.as_bytes());
        self
    }

    /// The key.
    pub fn key(self) -> Key {
        Key(self.0.first().cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_any_sha256_and_parts_do_not_run_together() {
        // printf '\0\0\0\0\0\0\0\4line\0\0\0\0\0\0\0\1a' | sha256sum
        let key = Keyed::new("line").with("a").key();
        assert_eq!(key, Key(0xc3bc_0d70_c3cd_5987_u64.cast_signed()));
        assert_ne!(
            Keyed::new("line").with("ab").with("c").key(),
            Keyed::new("line").with("a").with("bc").key()
        );
        assert_ne!(Keyed::by(Some(b"secret"), "line").with("a").key(), key);
    }
}
