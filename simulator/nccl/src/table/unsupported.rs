//! Functions that are not simulated: the device-side interface, one-sided operations, parameters by
//! name.

use crate::result::NcclResult;

gpumem_sim_client::unsupported! {
    NcclResult::INVALID_USAGE => NcclResult = "ncclInvalidUsage";
    ncclCommQueryProperties ncclDevCommCreate ncclDevCommDestroy ncclGetLsaDevicePointer
    ncclGetLsaMultimemDevicePointer ncclGetMultimemDevicePointer ncclParamBind ncclParamGet
    ncclParamGetAllParameterKeys ncclParamGetParameter ncclParamGetStr ncclPutSignal ncclSignal
    ncclWaitSignal
}
