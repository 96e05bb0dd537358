//! `ncclConfig_t`, as far as it affects memory.

use crate::result::NcclResult;
use gpumem_sim_client::ffi::{Address, Out};

/// `NCCL_API_MAGIC`.
const MAGIC: u32 = 0xcafe_beef;

/// Offsets of the fields; all are C's `int`.
const MIN_CTAS: usize = 24;
const MAX_CTAS: usize = 28;
const SPLIT_SHARE: usize = 40;
const SHRINK_SHARE: usize = 64;
const NVLS_CTAS: usize = 68;
const PER_NET_PEER: usize = 72;

/// A caller's configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// `minCTAs`.
    pub least: Option<u64>,
    /// `maxCTAs`.
    pub most: Option<u64>,
    /// `nvlsCTAs`.
    pub nvls: Option<u64>,
    /// `nChannelsPerNetPeer`.
    pub per_net_peer: Option<u64>,
    /// `splitShare`.
    pub split_shares: bool,
    /// `shrinkShare`.
    pub shrink_shares: bool,
}

impl Config {
    /// Reads a configuration; a null pointer means the defaults. The structure of an older NCCL is
    /// shorter.
    pub fn read(address: Address) -> Result<Self, NcclResult> {
        if address == 0 {
            return Ok(Self::default());
        }
        let invalid = |_| NcclResult::INVALID_ARGUMENT;
        let size = Out::<usize>::at(address).get().map_err(invalid)?;
        let magic = Out::<u32>::at(address + 8).get().map_err(invalid)?;
        if magic != MAGIC {
            return Err(NcclResult::INVALID_ARGUMENT);
        }
        let field = |offset: usize| {
            let inside = offset + size_of::<i32>() <= size;
            let value = inside.then(|| Out::<i32>::at(address + offset).get().ok());
            // NCCL_CONFIG_UNDEF_INT is negative.
            u64::try_from(value.flatten()?).ok()
        };
        let above = |offset| field(offset).filter(|number| *number > 0);
        Ok(Self {
            least: above(MIN_CTAS),
            most: above(MAX_CTAS),
            nvls: above(NVLS_CTAS),
            per_net_peer: above(PER_NET_PEER),
            split_shares: field(SPLIT_SHARE) == Some(1),
            shrink_shares: field(SHRINK_SHARE) == Some(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(fields: &[(usize, i32)], size: usize) -> Vec<u64> {
        let mut bytes = [0_u8; 112];
        bytes[..8].copy_from_slice(&size.to_ne_bytes());
        bytes[8..12].copy_from_slice(&MAGIC.to_ne_bytes());
        for place in (16..112).step_by(4) {
            bytes[place..place + 4].copy_from_slice(&i32::MIN.to_ne_bytes());
        }
        for (place, value) in fields {
            bytes[*place..*place + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let word = |chunk: &[u8]| u64::from_ne_bytes(chunk.try_into().unwrap());
        bytes.chunks(8).map(word).collect()
    }

    #[test]
    fn what_is_set_is_read_and_the_rest_is_not() {
        let config = words(&[(MAX_CTAS, 8), (SPLIT_SHARE, 1)], 112);
        let config = Config::read(config.as_ptr() as Address).unwrap();
        assert_eq!((config.least, config.most), (None, Some(8)));
        assert!(config.split_shares && !config.shrink_shares);
    }

    #[test]
    fn an_older_configuration_ends_earlier() {
        let config = words(&[(MAX_CTAS, 8), (NVLS_CTAS, 4)], 48);
        let config = Config::read(config.as_ptr() as Address).unwrap();
        assert_eq!((config.most, config.nvls), (Some(8), None));
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        let config = [0_u64; 14];
        assert!(Config::read(config.as_ptr() as Address).is_err());
        assert!(Config::read(0).unwrap().most.is_none());
    }
}
