//! The secret in a URL that authorizes a reader.

use subtle::ConstantTimeEq;

/// A secret of 128 random bits, as 32 hexadecimal digits.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A new one from the system's random numbers.
    ///
    /// # Errors
    /// If the system has none.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(
            bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }

    /// The digits.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// Whether `given` is equal. The time of the comparison does not depend on the number of
    /// correct digits.
    pub(crate) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn only_the_same_digits_are_the_token() {
        let token = Token::random().unwrap();
        let digits = token.digits().to_owned();
        assert_eq!(digits.len(), 32);
        assert!(token.is(&digits));
        assert!(!token.is(&digits[1..]));
        assert!(!token.is(""));
        assert!(!token.is(Token::random().unwrap().digits()));
        assert!(!format!("{token:?}").contains(&digits));
    }
}
