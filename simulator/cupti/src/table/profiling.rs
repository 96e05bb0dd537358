//! Functions that PyTorch's profiler uses.

use crate::profiler::{self, CuptiResult};
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::{Address, Handle, Out};
use std::ffi::c_char;

exports! {
    cuptiActivityDisable () -> CuptiResult = profiler::accepted;
    cuptiActivityEnable () -> CuptiResult = profiler::accepted;
    cuptiActivityEnableCudaEventDeviceTimestamps () -> CuptiResult = profiler::accepted;
    cuptiActivityEnableDriverApi () -> CuptiResult = profiler::accepted;
    cuptiActivityEnableRuntimeApi () -> CuptiResult = profiler::accepted;
    cuptiActivityFlushAll () -> CuptiResult = profiler::accepted;
    cuptiActivityGetNextRecord (buffer: Address, valid: usize, record: Address) -> CuptiResult = profiler::next_record;
    cuptiActivityGetNumDroppedRecords (context: Handle, stream: u32, dropped: Out<usize>) -> CuptiResult = profiler::dropped;
    cuptiActivityPopExternalCorrelationId (kind: u32, last: Out<u64>) -> CuptiResult = profiler::pop_external;
    cuptiActivityPushExternalCorrelationId (kind: u32, id: u64) -> CuptiResult = profiler::push_external;
    cuptiActivityRegisterCallbacks () -> CuptiResult = profiler::accepted;
    cuptiActivityRegisterTimestampCallback () -> CuptiResult = profiler::accepted;
    cuptiActivitySetAttribute () -> CuptiResult = profiler::accepted;
    cuptiEnableCallback () -> CuptiResult = profiler::accepted;
    cuptiEnableDomain () -> CuptiResult = profiler::accepted;
    cuptiFinalize () -> CuptiResult = profiler::accepted;
    cuptiGetCallbackName (domain: u32, id: u32, name: Out<*const c_char>) -> CuptiResult = profiler::callback_name;
    cuptiGetResultString (code: u32, name: Out<*const c_char>) -> CuptiResult = profiler::result_string;
    cuptiGetVersion (version: Out<u32>) -> CuptiResult = profiler::version;
    cuptiSubscribe (subscriber: Out<Handle>, callback: Address, data: Address) -> CuptiResult = profiler::subscribe;
    cuptiUnsubscribe () -> CuptiResult = profiler::accepted;
}
