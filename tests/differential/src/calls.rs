//! One method per driver function for [`Cuda`](crate::cuda::Cuda).

use gpumem_cuda_abi::{
    CuArray3dDescriptor, CuArray3dDescriptorV1, CuArrayDescriptor, CuArrayDescriptorV1,
    CuExternalMemoryBufferDesc, CuExternalMemoryHandleDesc, CuExternalMemoryMipmappedArrayDesc,
    CuGraphInstantiateParams, CuGraphNodeParams, CuIpcMemHandle, CuMemAccessDesc,
    CuMemAllocNodeParams, CuMemAllocationProp, CuMemLocation, CuMemPoolProps,
    CuMulticastObjectProp,
};

use crate::cuda::Cuda;
use crate::functions::Api;
use crate::pass::{Addr, DeviceResource, In, LaunchConfig, Made, Out, Pass, Private, Updated};
use crate::rows::rows;

macro_rules! methods {
    ($($name:ident = $base:literal $since:literal..$until:tt $variant:ident
        ($($arg:ident: $type:ty),* $(,)?);)*) => {
        #[allow(non_snake_case, clippy::too_many_arguments, unused_mut)]
        impl Cuda {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                pub fn $name(&mut self, $(mut $arg: $type),*) -> u32 {
                    let address = self.address(Api::$name);
                    if address == 0 {
                        return self.absent(Api::$name);
                    }
                    type Real = unsafe extern "C" fn($(<$type as Pass>::Raw),*) -> u32;
                    // SAFETY: the address is that of the driver's function of this name, whose type
                    // this is.
                    let real = unsafe { core::mem::transmute::<usize, Real>(address) };
                    // SAFETY: references live for the call; numbers may be wrong, and the driver
                    // returns an error for them.
                    let code = unsafe { real($($arg.raw()),*) };
                    if self.is_told() {
                        let mut line = String::new();
                        $(
                            $arg.tell(code == 0, &mut self.names, &mut line);
                            line.push_str(", ");
                        )*
                        self.tell(Api::$name, &line, code);
                    }
                    self.returned(Api::$name, code)
                }
            )*
        }
    };
}
rows!(methods);
