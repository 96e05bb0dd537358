//! Result codes of the driver API (`CUresult`) and of the runtime API (`cudaError_t`).

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$cdoc:meta])* $code:ident = $value:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[must_use]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$cdoc])* #[doc = $text] pub const $code: Self = Self($value);)*

            /// CUDA's own name of the code, if this crate knows it.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$code => Some($text),)*
                    _ => None,
                }
            }

            /// Whether the call succeeded.
            pub fn is_success(self) -> bool {
                self.0 == 0
            }
        }
    };
}

codes! {
    /// `nvmlReturn_t`. Unknown values pass through.
    NvmlReturn {
        SUCCESS = 0, "NVML_SUCCESS";
        UNINITIALIZED = 1, "NVML_ERROR_UNINITIALIZED";
    }
}

codes! {
    /// `CUresult`. Unknown values pass through.
    CuResult {
        SUCCESS = 0, "CUDA_SUCCESS";
        INVALID_VALUE = 1, "CUDA_ERROR_INVALID_VALUE";
        OUT_OF_MEMORY = 2, "CUDA_ERROR_OUT_OF_MEMORY";
        NOT_INITIALIZED = 3, "CUDA_ERROR_NOT_INITIALIZED";
        DEINITIALIZED = 4, "CUDA_ERROR_DEINITIALIZED";
        NO_DEVICE = 100, "CUDA_ERROR_NO_DEVICE";
        INVALID_DEVICE = 101, "CUDA_ERROR_INVALID_DEVICE";
        INVALID_IMAGE = 200, "CUDA_ERROR_INVALID_IMAGE";
        INVALID_CONTEXT = 201, "CUDA_ERROR_INVALID_CONTEXT";
        MAP_FAILED = 205, "CUDA_ERROR_MAP_FAILED";
        NO_BINARY_FOR_GPU = 209, "CUDA_ERROR_NO_BINARY_FOR_GPU";
        UNSUPPORTED_LIMIT = 215, "CUDA_ERROR_UNSUPPORTED_LIMIT";
        PEER_ACCESS_UNSUPPORTED = 217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED";
        FILE_NOT_FOUND = 301, "CUDA_ERROR_FILE_NOT_FOUND";
        OPERATING_SYSTEM = 304, "CUDA_ERROR_OPERATING_SYSTEM";
        INVALID_HANDLE = 400, "CUDA_ERROR_INVALID_HANDLE";
        ILLEGAL_STATE = 401, "CUDA_ERROR_ILLEGAL_STATE";
        NOT_FOUND = 500, "CUDA_ERROR_NOT_FOUND";
        NOT_READY = 600, "CUDA_ERROR_NOT_READY";
        ILLEGAL_ADDRESS = 700, "CUDA_ERROR_ILLEGAL_ADDRESS";
        PEER_ACCESS_ALREADY_ENABLED = 704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED";
        PEER_ACCESS_NOT_ENABLED = 705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED";
        PRIMARY_CONTEXT_ACTIVE = 708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE";
        CONTEXT_IS_DESTROYED = 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED";
        HOST_MEMORY_ALREADY_REGISTERED = 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED";
        HOST_MEMORY_NOT_REGISTERED = 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED";
        NOT_PERMITTED = 800, "CUDA_ERROR_NOT_PERMITTED";
        NOT_SUPPORTED = 801, "CUDA_ERROR_NOT_SUPPORTED";
        STREAM_CAPTURE_UNSUPPORTED = 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
        STREAM_CAPTURE_INVALIDATED = 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
        STREAM_CAPTURE_MERGE = 902, "CUDA_ERROR_STREAM_CAPTURE_MERGE";
        STREAM_CAPTURE_UNMATCHED = 903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED";
        STREAM_CAPTURE_UNJOINED = 904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED";
        STREAM_CAPTURE_ISOLATION = 905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION";
        STREAM_CAPTURE_IMPLICIT = 906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
        CAPTURED_EVENT = 907, "CUDA_ERROR_CAPTURED_EVENT";
        STREAM_CAPTURE_WRONG_THREAD = 908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD";
        GRAPH_EXEC_UPDATE_FAILURE = 910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE";
        UNKNOWN = 999, "CUDA_ERROR_UNKNOWN";
    }
}

codes! {
    /// `cudaError_t`. Since CUDA 10.1 its numbers equal the driver's. Unknown values pass through.
    CudaError {
        SUCCESS = 0, "cudaSuccess";
        INVALID_VALUE = 1, "cudaErrorInvalidValue";
        MEMORY_ALLOCATION = 2, "cudaErrorMemoryAllocation";
        INITIALIZATION_ERROR = 3, "cudaErrorInitializationError";
        CUDART_UNLOADING = 4, "cudaErrorCudartUnloading";
        INVALID_SYMBOL = 13, "cudaErrorInvalidSymbol";
        INSUFFICIENT_DRIVER = 35, "cudaErrorInsufficientDriver";
        INVALID_DEVICE_FUNCTION = 98, "cudaErrorInvalidDeviceFunction";
        NO_DEVICE = 100, "cudaErrorNoDevice";
        INVALID_DEVICE = 101, "cudaErrorInvalidDevice";
        INVALID_RESOURCE_HANDLE = 400, "cudaErrorInvalidResourceHandle";
        SYMBOL_NOT_FOUND = 500, "cudaErrorSymbolNotFound";
        NOT_READY = 600, "cudaErrorNotReady";
        PEER_ACCESS_ALREADY_ENABLED = 704, "cudaErrorPeerAccessAlreadyEnabled";
        NOT_SUPPORTED = 801, "cudaErrorNotSupported";
        UNKNOWN = 999, "cudaErrorUnknown";
    }
}

impl From<CuResult> for CudaError {
    fn from(result: CuResult) -> Self {
        Self(result.0)
    }
}
