//! Collectives, send and receive.

use crate::collective;
use crate::result::NcclResult;
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::{Address, Handle};

exports! {
    ncclAllReduce (from: Address, to: Address, count: usize, kind: u32, operation: u32, comm: Handle, stream: Handle) -> NcclResult = collective::all_reduce;
    ncclReduce (from: Address, to: Address, count: usize, kind: u32, operation: u32, root: i32, comm: Handle, stream: Handle) -> NcclResult = collective::reduce;
    ncclBroadcast (from: Address, to: Address, count: usize, kind: u32, root: i32, comm: Handle, stream: Handle) -> NcclResult = collective::broadcast;
    ncclBcast (buffer: Address, count: usize, kind: u32, root: i32, comm: Handle, stream: Handle) -> NcclResult = collective::broadcast_in_place;
    ncclAllGather (from: Address, to: Address, count: usize, kind: u32, comm: Handle, stream: Handle) -> NcclResult = collective::all_gather;
    ncclReduceScatter (from: Address, to: Address, count: usize, kind: u32, operation: u32, comm: Handle, stream: Handle) -> NcclResult = collective::reduce_scatter;
    ncclAlltoAll (from: Address, to: Address, count: usize, kind: u32, comm: Handle, stream: Handle) -> NcclResult = collective::all_to_all;
    ncclGather (from: Address, to: Address, count: usize, kind: u32, root: i32, comm: Handle, stream: Handle) -> NcclResult = collective::gather;
    ncclScatter (from: Address, to: Address, count: usize, kind: u32, root: i32, comm: Handle, stream: Handle) -> NcclResult = collective::scatter;
    ncclSend (from: Address, count: usize, kind: u32, peer: i32, comm: Handle, stream: Handle) -> NcclResult = collective::send;
    ncclRecv (to: Address, count: usize, kind: u32, peer: i32, comm: Handle, stream: Handle) -> NcclResult = collective::receive;
}
