//! Keys: hashes of content, so that ranks, runs and versions of the code join without a common list of numbers.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The first eight bytes of a SHA-256, big-endian, as a signed number, because not every engine has unsigned ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key(pub i64);

/// A key under construction.
pub struct Keyed(Hash);

impl Keyed {
    /// Begins the key of a thing of this kind (`line`, `stack`, `capture`).
    pub fn new(kind: &str) -> Self {
        Self::by(None, kind)
    }

    /// The same with a secret, if there is one. Without the secret, the hashed text cannot be found by trial.
    pub fn by(secret: Option<&[u8]>, kind: &str) -> Self {
        Self(Hash::new(secret)).with(kind)
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

/// SHA-256 of bytes, or HMAC-SHA256 with a secret.
pub enum Hash {
    /// Anyone can compute it.
    Plain(Sha256),
    /// The hashed bytes cannot be found by trial without the secret.
    Secret(Hmac<Sha256>),
}

impl Hash {
    /// HMAC with a secret; without one, plain SHA-256.
    pub fn new(secret: Option<&[u8]>) -> Self {
        // HMAC takes a secret of any length.
        match secret.and_then(|secret| Hmac::new_from_slice(secret).ok()) {
            Some(hmac) => Self::Secret(hmac),
            None => Self::Plain(Sha256::new()),
        }
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain(hash) => hash.update(bytes),
            Self::Secret(hmac) => hmac.update(bytes),
        }
    }

    /// The hash's first eight bytes, as a big-endian number.
    pub fn first(self) -> u64 {
        let hash = match self {
            Self::Plain(hash) => hash.finalize(),
            Self::Secret(hmac) => hmac.finalize().into_bytes(),
        };
        let first = hash.iter().take(8);
        first.fold(0, |number, byte| number << 8 | u64::from(*byte))
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
    }

    #[test]
    fn a_secret_makes_it_hmac() {
        let of = |secret: &[u8], bytes: &[u8]| {
            let mut hash = Hash::new(Some(secret));
            hash.update(bytes);
            hash.first()
        };
        // RFC 4231, test cases 2 and 6.
        let text = b"what do ya want for nothing?";
        assert_eq!(of(b"Jefe", text), 0x5bdc_c146_bf60_754e);
        let text = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(of(&[0xaa; 131], text), 0x60e4_3159_1ee0_b67f);
    }
}
