//! Descriptors, layouts and preferences, which store attributes by number.

use gpumem_sim_client::blas::{Status, pointer, status};
use gpumem_sim_client::ffi::{Address, Handle, Out};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Attributes of one descriptor, as the caller's bytes.
type Attributes = HashMap<u32, Vec<u8>>;

/// Every descriptor. Those that the library creates have unique addresses; those that callers keep
/// in their own memory are identified by their address.
fn descriptors() -> MutexGuard<'static, HashMap<Handle, Attributes>> {
    static ALL: LazyLock<Mutex<HashMap<Handle, Attributes>>> = LazyLock::new(Mutex::default);
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make(place: Out<Handle>, attributes: Attributes) -> Status {
    if place.is_null() {
        return Status::INVALID_VALUE;
    }
    // Each handle points to its own byte, which is freed when the handle is destroyed.
    let handle = Box::into_raw(Box::new(0_u8)) as Handle;
    descriptors().insert(handle, attributes);
    status(pointer(place.put(handle)))
}

/// `cublasLt…Destroy`.
pub fn destroy(handle: Handle) -> Status {
    if descriptors().remove(&handle).is_none() {
        return Status::INVALID_VALUE;
    }
    // SAFETY: every handle in the table that is destroyed came from `make` (callers never destroy
    // those that were initialised in place), and is removed from the table first, so this happens
    // once.
    drop(unsafe { Box::from_raw(handle as *mut u8) });
    Status::SUCCESS
}

fn initialise(handle: Handle, attributes: Attributes) -> Status {
    if handle == 0 {
        return Status::INVALID_VALUE;
    }
    descriptors().insert(handle, attributes);
    Status::SUCCESS
}

fn bytes(value: impl Into<u64>, width: usize) -> Vec<u8> {
    value.into().to_ne_bytes()[..width].to_vec()
}

/// `CUBLASLT_MATMUL_DESC_COMPUTE_TYPE` and `_SCALE_TYPE`.
fn product(compute: u32, scale: u32) -> Attributes {
    HashMap::from([(0, bytes(compute, 4)), (1, bytes(scale, 4))])
}

/// `CUBLASLT_MATRIX_LAYOUT_TYPE`, `_ROWS`, `_COLS`, `_LD`, `_BATCH_COUNT`.
fn layout(kind: u32, rows: u64, columns: u64, leading: u64) -> Attributes {
    HashMap::from([
        (0, bytes(kind, 4)),
        (2, bytes(rows, 8)),
        (3, bytes(columns, 8)),
        (4, bytes(leading, 8)),
        (5, bytes(1_u32, 4)),
    ])
}

/// `cublasLtMatmulDescCreate`.
pub fn create_product(place: Out<Handle>, compute: u32, scale: u32) -> Status {
    make(place, product(compute, scale))
}

/// `cublasLtMatmulDescInit_internal`.
pub fn init_product(handle: Handle, _size: usize, compute: u32, scale: u32) -> Status {
    initialise(handle, product(compute, scale))
}

/// `cublasLtMatrixLayoutCreate`.
pub fn create_layout(place: Out<Handle>, kind: u32, rows: u64, columns: u64, ld: u64) -> Status {
    make(place, layout(kind, rows, columns, ld))
}

/// `cublasLtMatrixLayoutInit_internal`.
pub fn init_layout(
    handle: Handle,
    _size: usize,
    kind: u32,
    rows: u64,
    columns: u64,
    ld: u64,
) -> Status {
    initialise(handle, layout(kind, rows, columns, ld))
}

/// `cublasLtGroupedMatrixLayoutCreate`: the shapes stay in the caller's memory.
pub fn create_grouped(place: Out<Handle>, kind: u32) -> Status {
    make(place, HashMap::from([(0, bytes(kind, 4))]))
}

/// `cublasLtGroupedMatrixLayoutInit_internal`.
pub fn init_grouped(handle: Handle, _size: usize, kind: u32) -> Status {
    initialise(handle, HashMap::from([(0, bytes(kind, 4))]))
}

/// `cublasLtMatmulPreferenceCreate`, `cublasLtEmulationDescCreate`.
pub fn create_empty(place: Out<Handle>) -> Status {
    make(place, Attributes::new())
}

/// `cublasLtMatmulPreferenceInit_internal`, `cublasLtEmulationDescInit_internal`.
pub fn init_empty(handle: Handle, _size: usize) -> Status {
    initialise(handle, Attributes::new())
}

/// `cublasLtMatrixTransformDescCreate`.
pub fn create_transform(place: Out<Handle>, scale: u32) -> Status {
    make(place, HashMap::from([(0, bytes(scale, 4))]))
}

/// `cublasLtMatrixTransformDescInit_internal`.
pub fn init_transform(handle: Handle, _size: usize, scale: u32) -> Status {
    initialise(handle, HashMap::from([(0, bytes(scale, 4))]))
}

/// `cublasLt…SetAttribute`.
pub fn set_attribute(handle: Handle, attribute: u32, value: Address, size: usize) -> Status {
    if value == 0 || size == 0 {
        return Status::INVALID_VALUE;
    }
    // SAFETY: the C caller guarantees `size` bytes at `value`.
    let given = unsafe { std::slice::from_raw_parts(value as *const u8, size) }.to_vec();
    match descriptors().get_mut(&handle) {
        Some(attributes) => {
            attributes.insert(attribute, given);
            Status::SUCCESS
        }
        None => Status::INVALID_VALUE,
    }
}

/// `cublasLt…GetAttribute`: zeros if the attribute was never set. With a size of 0 it only returns
/// the needed size.
pub fn get_attribute(
    handle: Handle,
    attribute: u32,
    value: Address,
    size: usize,
    written: Out<usize>,
) -> Status {
    let descriptors = descriptors();
    let Some(attributes) = descriptors.get(&handle) else {
        return Status::INVALID_VALUE;
    };
    let found = attributes.get(&attribute);
    let needed = found.map_or(size, Vec::len);
    written.put_if_asked(needed);
    if size == 0 {
        let asked = !written.is_null();
        return if asked {
            Status::SUCCESS
        } else {
            Status::INVALID_VALUE
        };
    }
    if value == 0 || size < needed {
        return Status::INVALID_VALUE;
    }
    // SAFETY: the C caller guarantees `size` bytes at `value`, and `needed` is no more.
    let room = unsafe { std::slice::from_raw_parts_mut(value as *mut u8, needed) };
    match found {
        Some(found) => room.copy_from_slice(found),
        None => room.fill(0),
    }
    Status::SUCCESS
}

/// An attribute of 8 bytes, if the descriptor has it.
pub fn number(handle: Handle, attribute: u32) -> Option<u64> {
    let descriptors = descriptors();
    let found = descriptors.get(&handle)?.get(&attribute)?;
    Some(u64::from_ne_bytes(found.as_slice().try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_remembered_until_the_descriptor_goes() {
        let mut handle = 0;
        assert_eq!(
            create_layout(Out::to(&mut handle), 0, 3, 4, 5),
            Status::SUCCESS
        );
        assert_eq!(number(handle, 2), Some(3));
        let six = 6_u64;
        let set = set_attribute(handle, 3, &raw const six as Address, 8);
        assert_eq!(set, Status::SUCCESS);
        let (mut got, mut written) = (0_u64, 0);
        let place = &raw mut got as Address;
        let asked = get_attribute(handle, 3, place, 8, Out::to(&mut written));
        assert_eq!((asked, got, written), (Status::SUCCESS, 6, 8));
        assert_eq!(destroy(handle), Status::SUCCESS);
        assert_eq!(number(handle, 2), None);
        assert_eq!(set_attribute(handle, 3, place, 8), Status::INVALID_VALUE);
    }
}
