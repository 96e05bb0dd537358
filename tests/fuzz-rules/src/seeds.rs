//! The seeds of a target in one file: of each u32 its length, and its bytes.

/// One file of these seeds.
pub fn pack<'a>(seeds: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for seed in seeds {
        out.extend_from_slice(&(seed.len() as u32).to_le_bytes());
        out.extend_from_slice(seed);
    }
    out
}

/// The seeds of a file, as far as it is whole.
pub fn unpack(mut file: &[u8]) -> Vec<&[u8]> {
    let mut seeds = Vec::new();
    while let Some((length, rest)) = file.split_first_chunk()
        && let Some((seed, rest)) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)
    {
        seeds.push(seed);
        file = rest;
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_unpacked() {
        let seeds: [&[u8]; 3] = [b"", b"a", &[0; 300]];
        let file = pack(seeds.into_iter());
        assert_eq!(unpack(&file), seeds);
        assert_eq!(unpack(&file[..file.len() - 1]), seeds[..2]);
    }
}
