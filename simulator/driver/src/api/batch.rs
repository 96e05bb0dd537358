//! Batched operations on ranges of managed memory: prefetch, discard, queries.

use super::memory::{advise_v2, move_to, range_get_attribute};
use crate::ffi::{Answer, Handle, In, Out, require};
use crate::model::state::state;
use crate::model::stream::On;
use gpumem_cuda_abi::{CuDevicePtr, CuMemLocation};

/// `CU_STREAM_LEGACY`; a null stream means the same.
const LEGACY_STREAM: Handle = 1;

/// A range of managed memory.
type Range = (CuDevicePtr, usize);

/// Checks the stream: these functions reject the legacy default stream.
fn on_stream(stream: Handle) -> Answer {
    require(stream > LEGACY_STREAM)?;
    state()?.not_captured(On::legacy(stream)).map(drop)
}

/// Reads ranges, all of which must be managed.
fn ranges(pointers: In<CuDevicePtr>, sizes: In<usize>, count: usize) -> Answer<Vec<Range>> {
    require(count > 0)?;
    let pointers = pointers.list(count)?;
    let ranges: Vec<Range> = pointers.into_iter().zip(sizes.list(count)?).collect();
    for (pointer, bytes) in &ranges {
        // A hint only checks its range.
        let nowhere = CuMemLocation {
            kind: gpumem_cuda_abi::CuMemLocationType::HOST,
            id: 0,
        };
        advise_v2(*pointer, *bytes, 0, nowhere)?;
    }
    Ok(ranges)
}

/// Reads the location for each of `count` ranges. A location applies from its first range on.
fn places(
    places: In<CuMemLocation>,
    firsts: In<usize>,
    given: usize,
    count: usize,
) -> Answer<Vec<CuMemLocation>> {
    require(given > 0 && given <= count)?;
    let firsts = firsts.list(given)?;
    let ascending = firsts.windows(2).all(|pair| pair[0] < pair[1]);
    require(firsts.first() == Some(&0) && ascending)?;
    require(firsts.last().is_some_and(|last| *last < count))?;
    let places = places.list(given)?;
    let of = |range: usize| places[firsts.partition_point(|first| *first <= range) - 1];
    Ok((0..count).map(of).collect())
}

/// `cuMemPrefetchBatchAsync`, and `cuMemDiscardAndPrefetchBatchAsync`: discarded memory may have
/// any contents, so it keeps its bytes.
#[allow(clippy::too_many_arguments)] // the driver's parameters
pub extern "C" fn prefetch(
    pointers: In<CuDevicePtr>,
    sizes: In<usize>,
    count: usize,
    to: In<CuMemLocation>,
    firsts: In<usize>,
    given: usize,
    flags: u64,
    stream: Handle,
) -> Answer {
    require(flags == 0)?;
    on_stream(stream)?;
    let ranges = ranges(pointers, sizes, count)?;
    let places = places(to, firsts, given, count)?;
    for ((pointer, bytes), place) in ranges.into_iter().zip(places) {
        move_to(pointer, bytes, place)?;
    }
    Ok(())
}

/// `cuMemDiscardBatchAsync`: contents and location do not change.
pub extern "C" fn discard(
    pointers: In<CuDevicePtr>,
    sizes: In<usize>,
    count: usize,
    flags: u64,
    stream: Handle,
) -> Answer {
    require(flags == 0)?;
    on_stream(stream)?;
    ranges(pointers, sizes, count).map(drop)
}

/// `cuMemRangeGetAttributes`.
pub extern "C" fn get_attributes(
    data: In<Out<i32>>,
    sizes: In<usize>,
    attributes: In<u32>,
    count: usize,
    pointer: CuDevicePtr,
    bytes: usize,
) -> Answer {
    require(count > 0)?;
    let places = data.list(count)?.into_iter().zip(sizes.list(count)?);
    for ((place, size), attribute) in places.zip(attributes.list(count)?) {
        range_get_attribute(place, size, attribute, pointer, bytes)?;
    }
    Ok(())
}
