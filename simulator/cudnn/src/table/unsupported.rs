//! Functions that are not simulated. PyTorch 2.15 imports none of them.

use crate::status::Status;
use crate::unsupported::refuse;
use std::sync::atomic::AtomicBool;

/// Makes exports that ignore their parameters.
macro_rules! unsupported {
    ($($name:ident)*) => {
        /// The names of this family.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub extern "C" fn $name() -> Status {
                static TOLD: AtomicBool = AtomicBool::new(false);
                refuse(stringify!($name), &TOLD)
            }
        )*
    };
}

unsupported! {
    cudnnB2BCausalConv1dBackward cudnnB2BCausalConv1dForward cudnnBackendPopulateCudaGraph
    cudnnBackendUpdateCudaGraph cudnnBuildRNNDynamic cudnnCausalConv1dBackward
    cudnnCausalConv1dForward cudnnCausalConv1dNwhBackward cudnnCausalConv1dNwhForward
    cudnnCreateAttnDescriptor cudnnCreateFusedOpsConstParamPack cudnnCreateFusedOpsPlan
    cudnnCreateFusedOpsVariantParamPack cudnnCreateLRNDescriptor cudnnCreateOpTensorDescriptor
    cudnnCreateReduceTensorDescriptor cudnnCreateSeqDataDescriptor
    cudnnCreateTensorTransformDescriptor cudnnDeriveBNTensorDescriptor
    cudnnDeriveNormTensorDescriptor cudnnDestroyAttnDescriptor cudnnDestroyFusedOpsConstParamPack
    cudnnDestroyFusedOpsPlan cudnnDestroyFusedOpsVariantParamPack cudnnDestroyLRNDescriptor
    cudnnDestroyOpTensorDescriptor cudnnDestroyReduceTensorDescriptor cudnnDestroySeqDataDescriptor
    cudnnDestroyTensorTransformDescriptor cudnnDivisiveNormalizationBackward
    cudnnDivisiveNormalizationForward cudnnDropoutBackward cudnnDropoutForward
    cudnnDropoutGetReserveSpaceSize cudnnFFTCausalConv1dBackward cudnnFFTCausalConv1dForward
    cudnnFindConvolutionBackwardDataAlgorithm cudnnFindConvolutionBackwardFilterAlgorithm
    cudnnFindConvolutionForwardAlgorithm cudnnFusedOpsExecute cudnnGetActivationDescriptor
    cudnnGetActivationDescriptorSwishBeta cudnnGetAttnDescriptor cudnnGetBackdoor
    cudnnGetCTCLossDescriptor cudnnGetCTCLossDescriptorEx cudnnGetCTCLossDescriptor_v8
    cudnnGetCTCLossDescriptor_v9 cudnnGetCallback cudnnGetConvolution2dDescriptor
    cudnnGetConvolution2dForwardOutputDim cudnnGetConvolutionBackwardDataAlgorithmMaxCount
    cudnnGetConvolutionBackwardFilterAlgorithmMaxCount cudnnGetConvolutionForwardAlgorithmMaxCount
    cudnnGetConvolutionGroupCount cudnnGetConvolutionMathType cudnnGetConvolutionNdDescriptor
    cudnnGetConvolutionNdForwardOutputDim cudnnGetConvolutionReorderType cudnnGetDropoutDescriptor
    cudnnGetFilter4dDescriptor cudnnGetFilterSizeInBytes cudnnGetFoldedConvBackwardDataDescriptors
    cudnnGetFusedOpsConstParamPackAttribute cudnnGetFusedOpsVariantParamPackAttribute
    cudnnGetLRNDescriptor cudnnGetMultiHeadAttnBuffers cudnnGetMultiHeadAttnWeights
    cudnnGetNormalizationBackwardWorkspaceSize cudnnGetNormalizationForwardTrainingWorkspaceSize
    cudnnGetNormalizationTrainingReserveSpaceSize cudnnGetOpTensorDescriptor
    cudnnGetPooling2dDescriptor cudnnGetPooling2dForwardOutputDim cudnnGetPoolingNdDescriptor
    cudnnGetPoolingNdForwardOutputDim cudnnGetRNNDataDescriptor cudnnGetRNNDescriptor_v8
    cudnnGetRNNDropoutLocationsInternal cudnnGetReduceTensorDescriptor cudnnGetReductionIndicesSize
    cudnnGetReductionWorkspaceSize cudnnGetSeqDataDescriptor cudnnGetTensor4dDescriptor
    cudnnGetTensorTransformDescriptor cudnnGnnAggSimpleBackward cudnnGnnAggSimpleForward cudnnIm2Col
    cudnnInitTransformDest cudnnLRNCrossChannelBackward cudnnLRNCrossChannelForward
    cudnnLongFFTCausalConv1dBackward cudnnLongFFTCausalConv1dForward
    cudnnLongFFTCausalConv1dGetBufferSizes cudnnMakeFusedOpsPlan cudnnMultiHeadAttnBackwardData
    cudnnMultiHeadAttnBackwardWeights cudnnMultiHeadAttnForward cudnnNormalizationBackward
    cudnnNormalizationForwardInference cudnnNormalizationForwardTraining cudnnOpTensor
    cudnnQueryRuntimeError cudnnRNNGetClip_v8 cudnnRNNGetClip_v9 cudnnRNNSetClip_v8
    cudnnRNNSetClip_v9 cudnnReduceTensor cudnnReorderFilterAndBias
    cudnnSetActivationDescriptorSwishBeta cudnnSetAttnDescriptor cudnnSetBackdoor cudnnSetBackdoorEx
    cudnnSetConvolutionReorderType cudnnSetFusedOpsConstParamPackAttribute
    cudnnSetFusedOpsVariantParamPackAttribute cudnnSetLRNDescriptor cudnnSetOpTensorDescriptor
    cudnnSetReduceTensorDescriptor cudnnSetSeqDataDescriptor cudnnSetTensorTransformDescriptor
    cudnnSubquadraticOpsVersionCheck cudnnTransformFilter cudnnTransformTensorEx
}
