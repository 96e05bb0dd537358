//! Descriptors of the older API: create, set, get, destroy.

use crate::convolution::{self, CONVOLUTIONS};
use crate::ctc::{self, LOSSES};
use crate::dropout::{self, DROPOUTS};
use crate::rnn::{self, DATA, RNNS};
use crate::simple::{self, ACTIVATIONS, POOLINGS, TRANSFORMERS};
use crate::status::Status;
use crate::tensor::{self, FILTERS, TENSORS};
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::{Address, Handle, Out};

/// Makes a pair of functions for each table.
macro_rules! pairs {
    ($($create:ident $destroy:ident $table:ident;)*) => {
        /// The names of the pairs.
        pub const PAIRS: &[&str] = &[$(stringify!($create), stringify!($destroy)),*];

        $(
            #[doc = concat!("`", stringify!($create), "`.")]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub extern "C" fn $create(place: Out<Handle>) -> Status {
                $table.create(place)
            }

            #[doc = concat!("`", stringify!($destroy), "`.")]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub extern "C" fn $destroy(descriptor: Handle) -> Status {
                $table.destroy(descriptor)
            }
        )*
    };
}

pairs! {
    cudnnCreateTensorDescriptor cudnnDestroyTensorDescriptor TENSORS;
    cudnnCreateFilterDescriptor cudnnDestroyFilterDescriptor FILTERS;
    cudnnCreateConvolutionDescriptor cudnnDestroyConvolutionDescriptor CONVOLUTIONS;
    cudnnCreateActivationDescriptor cudnnDestroyActivationDescriptor ACTIVATIONS;
    cudnnCreatePoolingDescriptor cudnnDestroyPoolingDescriptor POOLINGS;
    cudnnCreateSpatialTransformerDescriptor cudnnDestroySpatialTransformerDescriptor TRANSFORMERS;
    cudnnCreateDropoutDescriptor cudnnDestroyDropoutDescriptor DROPOUTS;
    cudnnCreateCTCLossDescriptor cudnnDestroyCTCLossDescriptor LOSSES;
    cudnnCreateRNNDescriptor cudnnDestroyRNNDescriptor RNNS;
    cudnnCreateRNNDataDescriptor cudnnDestroyRNNDataDescriptor DATA;
}

exports! {
    cudnnSetTensorNdDescriptor (tensor: Handle, kind: u32, dimensions: i32, extents: Address, strides: Address) -> Status = tensor::set;
    cudnnSetTensorNdDescriptorEx (tensor: Handle, format: u32, kind: u32, dimensions: i32, extents: Address) -> Status = tensor::set_packed;
    cudnnSetTensor4dDescriptor (tensor: Handle, format: u32, kind: u32, n: i32, c: i32, h: i32, w: i32) -> Status = tensor::set_4d;
    cudnnSetTensor4dDescriptorEx (tensor: Handle, kind: u32, n: i32, c: i32, h: i32, w: i32, n_stride: i32, c_stride: i32, h_stride: i32, w_stride: i32) -> Status = tensor::set_4d_strided;
    cudnnGetTensorNdDescriptor (tensor: Handle, wanted: i32, kind: Out<u32>, dimensions: Out<i32>, extents: Address, strides: Address) -> Status = tensor::get;
    cudnnGetTensorSizeInBytes (tensor: Handle, bytes: Out<usize>) -> Status = tensor::size;
    cudnnSetFilterNdDescriptor (filter: Handle, kind: u32, format: u32, dimensions: i32, extents: Address) -> Status = tensor::set_filter;
    cudnnSetFilter4dDescriptor (filter: Handle, kind: u32, format: u32, k: i32, c: i32, h: i32, w: i32) -> Status = tensor::set_filter_4d;
    cudnnGetFilterNdDescriptor (filter: Handle, wanted: i32, kind: Out<u32>, format: Out<u32>, dimensions: Out<i32>, extents: Address) -> Status = tensor::get_filter;
    cudnnSetConvolutionNdDescriptor (convolution: Handle) -> Status = convolution::set;
    cudnnSetConvolution2dDescriptor (convolution: Handle) -> Status = convolution::set;
    cudnnSetConvolutionGroupCount (convolution: Handle) -> Status = convolution::set;
    cudnnSetConvolutionMathType (convolution: Handle) -> Status = convolution::set;
    cudnnSetActivationDescriptor (activation: Handle) -> Status = simple::set_activation;
    cudnnSetPooling2dDescriptor (pooling: Handle) -> Status = simple::set_pooling;
    cudnnSetPoolingNdDescriptor (pooling: Handle) -> Status = simple::set_pooling;
    cudnnSetSpatialTransformerNdDescriptor (transformer: Handle) -> Status = simple::set_transformer;
    cudnnSetDropoutDescriptor (descriptor: Handle, handle: Handle, probability: f32, states: Address, room: usize, seed: u64) -> Status = dropout::set;
    cudnnRestoreDropoutDescriptor (descriptor: Handle, handle: Handle, probability: f32, states: Address, room: usize, seed: u64) -> Status = dropout::restore;
    cudnnSetCTCLossDescriptor (loss: Handle) -> Status = ctc::set;
    cudnnSetCTCLossDescriptorEx (loss: Handle) -> Status = ctc::set;
    cudnnSetCTCLossDescriptor_v8 (loss: Handle, kind: u32, normalization: u32, gradients: u32, longest: i32) -> Status = ctc::set_longest;
    cudnnSetCTCLossDescriptor_v9 (loss: Handle, kind: u32, normalization: u32, gradients: u32, longest: i32) -> Status = ctc::set_longest;
    cudnnSetRNNDescriptor_v8 (rnn: Handle, algorithm: u32, mode: u32, bias: u32, direction: u32, input_mode: u32, kind: u32, precision: u32, math: u32, input: i32, hidden: i32, projection: i32, layers: i32, dropout: Handle, flags: u32) -> Status = rnn::set;
    cudnnSetRNNDataDescriptor (data: Handle, kind: u32, layout: u32, steps: i32, batch: i32, vector: i32, lengths: Address, fill: Address) -> Status = rnn::set_data;
}
