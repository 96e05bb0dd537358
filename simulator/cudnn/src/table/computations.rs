//! Functions that only launch. Their first parameter is the handle; the others are ignored.

use crate::launch::compute;
use crate::status::Status;
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::Handle;

exports! {
    cudnnConvolutionForward (handle: Handle) -> Status = compute;
    cudnnConvolutionBiasActivationForward (handle: Handle) -> Status = compute;
    cudnnConvolutionBackwardData (handle: Handle) -> Status = compute;
    cudnnConvolutionBackwardFilter (handle: Handle) -> Status = compute;
    cudnnConvolutionBackwardBias (handle: Handle) -> Status = compute;
    cudnnBatchNormalizationForwardInference (handle: Handle) -> Status = compute;
    cudnnBatchNormalizationForwardTraining (handle: Handle) -> Status = compute;
    cudnnBatchNormalizationForwardTrainingEx (handle: Handle) -> Status = compute;
    cudnnBatchNormalizationBackward (handle: Handle) -> Status = compute;
    cudnnBatchNormalizationBackwardEx (handle: Handle) -> Status = compute;
    cudnnActivationForward (handle: Handle) -> Status = compute;
    cudnnActivationBackward (handle: Handle) -> Status = compute;
    cudnnPoolingForward (handle: Handle) -> Status = compute;
    cudnnPoolingBackward (handle: Handle) -> Status = compute;
    cudnnSoftmaxForward (handle: Handle) -> Status = compute;
    cudnnSoftmaxBackward (handle: Handle) -> Status = compute;
    cudnnAddTensor (handle: Handle) -> Status = compute;
    cudnnScaleTensor (handle: Handle) -> Status = compute;
    cudnnSetTensor (handle: Handle) -> Status = compute;
    cudnnTransformTensor (handle: Handle) -> Status = compute;
    cudnnCTCLoss (handle: Handle) -> Status = compute;
    cudnnCTCLoss_v8 (handle: Handle) -> Status = compute;
    cudnnSpatialTfGridGeneratorForward (handle: Handle) -> Status = compute;
    cudnnSpatialTfGridGeneratorBackward (handle: Handle) -> Status = compute;
    cudnnSpatialTfSamplerForward (handle: Handle) -> Status = compute;
    cudnnSpatialTfSamplerBackward (handle: Handle) -> Status = compute;
}
