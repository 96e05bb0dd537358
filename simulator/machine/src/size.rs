//! Sizes as people write them: `16GiB`, `512 MiB`, `1048576`.

use std::fmt;

/// A size that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseSizeError;

impl fmt::Display for ParseSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a size (write 16GiB, 512MiB, 64KiB or a number of bytes)")
    }
}

impl std::error::Error for ParseSizeError {}

/// Reads a size in bytes. `K`, `KiB`, `M`, … are powers of 1024; `KB`, `MB`, … of 1000. The number
/// may have a fraction (`1.5GiB`).
///
/// # Errors
/// [`ParseSizeError`] for anything else, a negative number, or more than 2^63 bytes.
pub fn parse_size(text: &str) -> Result<u64, ParseSizeError> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(ParseSizeError),
    };
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(scale).ok_or(ParseSizeError)?,
        Err(_) => {
            let fraction: f64 = number.parse().map_err(|_| ParseSizeError)?;
            (fraction * scale as f64) as u64
        }
    };
    if bytes > 1 << 63 {
        return Err(ParseSizeError);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse_size("16GiB"), Ok(16 << 30));
        assert_eq!(parse_size(" 512 MiB "), Ok(512 << 20));
        assert_eq!(parse_size("64k"), Ok(64 << 10));
        assert_eq!(parse_size("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse_size("8GB"), Ok(8_000_000_000));
        assert_eq!(parse_size("123"), Ok(123));
        assert_eq!(parse_size("0"), Ok(0));
    }

    #[test]
    fn refuses_everything_else() {
        for text in ["", "GiB", "-1", "16XB", "1..5G", "99999999999TiB", "0x10"] {
            assert_eq!(parse_size(text), Err(ParseSizeError), "{text}");
        }
    }
}
