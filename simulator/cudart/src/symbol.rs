//! Variables of device code.

use crate::registry::registry;
use gpumem_sim_client::ffi::{Address, Answer, Out, require};

/// `cudaGetSymbolAddress`.
pub fn get_address(pointer: Out<Address>, symbol: Address) -> Answer {
    require(!pointer.is_null())?;
    pointer.put(registry().variable(symbol)?.0)
}

/// `cudaGetSymbolSize`.
pub fn get_size(bytes: Out<usize>, symbol: Address) -> Answer {
    require(!bytes.is_null())?;
    bytes.put(registry().variable(symbol)?.1)
}

/// The address of `bytes` bytes in a variable, from `offset` on.
pub fn range(symbol: Address, offset: usize, bytes: usize) -> Answer<Address> {
    let (address, size) = registry().variable(symbol)?;
    let end = offset.checked_add(bytes);
    require(end.is_some_and(|end| end <= size))?;
    Ok(address + offset)
}
