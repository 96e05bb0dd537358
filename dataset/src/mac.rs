//! SHA-256, or HMAC-SHA256 (RFC 2104) with a secret.

use sha2::{Digest, Sha256};

/// SHA-256's block size in bytes.
const BLOCK: usize = 64;

/// A hash of bytes. With a secret, the hashed bytes cannot be found by trial without the secret.
#[derive(Clone)]
pub struct Mac {
    inner: Sha256,
    /// The outer hash, already fed with the padded secret.
    outer: Option<Sha256>,
}

impl Mac {
    /// HMAC with a secret; without one, plain SHA-256.
    pub fn new(secret: Option<&[u8]>) -> Self {
        let Some(secret) = secret else {
            return Self {
                inner: Sha256::new(),
                outer: None,
            };
        };
        let mut key = [0; BLOCK];
        if secret.len() > BLOCK {
            let hashed = Sha256::digest(secret);
            key.iter_mut().zip(hashed).for_each(|(to, of)| *to = of);
        } else {
            key.iter_mut().zip(secret).for_each(|(to, of)| *to = *of);
        }
        let padded = |with: u8| Sha256::new().chain_update(key.map(|byte| byte ^ with));
        Self {
            inner: padded(0x36),
            outer: Some(padded(0x5c)),
        }
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.inner.update(bytes);
    }

    /// The hash's first eight bytes, as a big-endian number.
    pub fn first(self) -> u64 {
        let inner = self.inner.finalize();
        let hash = match self.outer {
            None => inner,
            Some(outer) => outer.chain_update(inner).finalize(),
        };
        let first = hash.iter().take(8);
        first.fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(secret: Option<&[u8]>, bytes: &[u8]) -> u64 {
        let mut mac = Mac::new(secret);
        mac.update(bytes);
        mac.first()
    }

    #[test]
    fn hashes_are_those_of_the_standards() {
        assert_eq!(of(None, b"abc"), 0xba78_16bf_8f01_cfea);
        // RFC 4231, test cases 1, 2 and 6.
        assert_eq!(of(Some(&[0x0b; 20]), b"Hi There"), 0xb034_4c61_d8db_3853);
        let text = b"what do ya want for nothing?";
        assert_eq!(of(Some(b"Jefe"), text), 0x5bdc_c146_bf60_754e);
        let text = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(of(Some(&[0xaa; 131]), text), 0x60e4_3159_1ee0_b67f);
    }
}
