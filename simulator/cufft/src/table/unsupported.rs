//! Functions that are not simulated: callbacks, several devices, device functions, plan properties.

use crate::plan::FftResult;

gpumem_sim_client::unsupported! {
    FftResult::NOT_SUPPORTED => FftResult = "CUFFT_NOT_SUPPORTED";
    cufftDebug cufftDescriptionCreate cufftDescriptionGetTraitInt64
    cufftDescriptionSetTraitInt64 cufftDeviceCreate cufftDeviceDestroy cufftDeviceGetDatabaseStr
    cufftDeviceGetDatabaseStrSize cufftDeviceGetDeviceFunctionTraitInt64
    cufftDeviceGetDeviceFunctions cufftDeviceGetLTOIRSizes cufftDeviceGetLTOIRs
    cufftDeviceGetNumDeviceFunctions cufftDeviceGetNumLTOIRs cufftDeviceGetSemanticVersion
    cufftDeviceGetVersion cufftDeviceIsSupported cufftGetPlanPropertyInt64
    cufftResetPlanProperty cufftSetPlanPropertyInt64 cufftXtClearCallback cufftXtExecDescriptor
    cufftXtExecDescriptorC2C cufftXtExecDescriptorC2R cufftXtExecDescriptorD2Z
    cufftXtExecDescriptorR2C cufftXtExecDescriptorZ2D cufftXtExecDescriptorZ2Z cufftXtFree
    cufftXtMakePlanGuru64 cufftXtMalloc cufftXtMemcpy cufftXtQueryPlan cufftXtSetCallback
    cufftXtSetCallbackSharedSize cufftXtSetGPUs cufftXtSetJITCallback cufftXtSetWorkArea
    cufftXtSetWorkAreaPolicy
}
