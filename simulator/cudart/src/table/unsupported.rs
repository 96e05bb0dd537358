//! Functions that are not simulated. They exist so that programs link, and print a message when
//! called: semaphores and their graph nodes, graphics, textures and surfaces, logs.

/// Makes exports that ignore their parameters.
macro_rules! unsupported {
    ($($name:ident;)*) => {
        /// The names of this family.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub extern "C" fn $name() -> gpumem_cuda_abi::CudaError {
                $crate::thread::answer(|| Err(gpumem_cuda_abi::CudaError::NOT_SUPPORTED))
            }
        )*
    };
}

unsupported! {
    __cudaGetProcAddress;
    cudaArrayGetMemoryRequirements;
    cudaArrayGetSparseProperties;
    cudaCreateSurfaceObject;
    cudaCreateTextureObject;
    cudaDestroyExternalSemaphore;
    cudaDestroySurfaceObject;
    cudaDestroyTextureObject;
    cudaDevSmResourceSplit;
    cudaDeviceGetExecutionCtx;
    cudaDeviceGetHostAtomicCapabilities;
    cudaDeviceGetNvSciSyncAttributes;
    cudaDeviceGetP2PAtomicCapabilities;
    cudaDeviceGetTexture1DLinearMaxWidth;
    cudaDeviceRegisterAsyncNotification;
    cudaDeviceUnregisterAsyncNotification;
    cudaEGLStreamConsumerAcquireFrame;
    cudaEGLStreamConsumerConnect;
    cudaEGLStreamConsumerConnectWithFlags;
    cudaEGLStreamConsumerDisconnect;
    cudaEGLStreamConsumerReleaseFrame;
    cudaEGLStreamProducerConnect;
    cudaEGLStreamProducerDisconnect;
    cudaEGLStreamProducerPresentFrame;
    cudaEGLStreamProducerReturnFrame;
    cudaEventCreateFromEGLSync;
    cudaGLGetDevices;
    cudaGLMapBufferObject;
    cudaGLMapBufferObjectAsync;
    cudaGLRegisterBufferObject;
    cudaGLSetBufferObjectMapFlags;
    cudaGLSetGLDevice;
    cudaGLUnmapBufferObject;
    cudaGLUnmapBufferObjectAsync;
    cudaGLUnregisterBufferObject;
    cudaGetSurfaceObjectResourceDesc;
    cudaGetTextureObjectResourceDesc;
    cudaGetTextureObjectResourceViewDesc;
    cudaGetTextureObjectTextureDesc;
    cudaGraphAddExternalSemaphoresSignalNode;
    cudaGraphAddExternalSemaphoresWaitNode;
    cudaGraphExecExternalSemaphoresSignalNodeSetParams;
    cudaGraphExecExternalSemaphoresWaitNodeSetParams;
    cudaGraphExternalSemaphoresSignalNodeGetParams;
    cudaGraphExternalSemaphoresSignalNodeSetParams;
    cudaGraphExternalSemaphoresWaitNodeGetParams;
    cudaGraphExternalSemaphoresWaitNodeSetParams;
    cudaGraphicsEGLRegisterImage;
    cudaGraphicsGLRegisterBuffer;
    cudaGraphicsGLRegisterImage;
    cudaGraphicsMapResources;
    cudaGraphicsResourceGetMappedEglFrame;
    cudaGraphicsResourceGetMappedMipmappedArray;
    cudaGraphicsResourceGetMappedPointer;
    cudaGraphicsResourceSetMapFlags;
    cudaGraphicsSubResourceGetMappedArray;
    cudaGraphicsUnmapResources;
    cudaGraphicsUnregisterResource;
    cudaGraphicsVDPAURegisterOutputSurface;
    cudaGraphicsVDPAURegisterVideoSurface;
    cudaImportExternalSemaphore;
    cudaLogsCurrent;
    cudaLogsDumpToFile;
    cudaLogsDumpToMemory;
    cudaLogsRegisterCallback;
    cudaLogsUnregisterCallback;
    cudaMemcpy3DBatchAsync;
    cudaMemcpy3DBatchAsync_ptsz;
    cudaMemcpy3DWithAttributesAsync;
    cudaMemcpy3DWithAttributesAsync_ptsz;
    cudaMemcpyArrayToArray;
    cudaMemcpyArrayToArray_ptds;
    cudaMemcpyFromArray;
    cudaMemcpyFromArrayAsync;
    cudaMemcpyFromArrayAsync_ptsz;
    cudaMemcpyFromArray_ptds;
    cudaMemcpyToArray;
    cudaMemcpyToArrayAsync;
    cudaMemcpyToArrayAsync_ptsz;
    cudaMemcpyToArray_ptds;
    cudaMemcpyWithAttributesAsync;
    cudaMemcpyWithAttributesAsync_ptsz;
    cudaMipmappedArrayGetMemoryRequirements;
    cudaMipmappedArrayGetSparseProperties;
    cudaSignalExternalSemaphoresAsync;
    cudaSignalExternalSemaphoresAsync_ptsz;
    cudaStreamGetDevResource;
    cudaStreamGetDevResource_ptsz;
    cudaVDPAUGetDevice;
    cudaVDPAUSetVDPAUDevice;
    cudaWaitExternalSemaphoresAsync;
    cudaWaitExternalSemaphoresAsync_ptsz;
}
