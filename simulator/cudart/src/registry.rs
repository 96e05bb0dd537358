//! Images, kernels and variables that compiled code registers before `main`.
//!
//! Loading is lazy, as in NVIDIA's runtime by default: an image is passed to the driver when
//! something in it is first used.

use crate::thread;
use gpumem_cuda_abi::CudaError;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle, Out, Text};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// A fat binary of the program, or a library that the program loaded.
#[derive(Debug)]
struct Image {
    /// The compiler's wrapper around the code; 0 for a library.
    wrapper: Address,
    /// The driver's handle, once loaded.
    library: Handle,
}

/// A kernel.
#[derive(Debug)]
struct Kernel {
    image: Address,
    name: CString,
    /// The driver's handle, once looked up.
    handle: Handle,
    /// The function of each context in which it has been used.
    functions: Vec<(Handle, Handle)>,
}

/// A variable.
#[derive(Clone, Debug)]
struct Variable {
    image: Address,
    name: CString,
    bytes: usize,
    /// Address of a managed variable's pointer; null for others.
    managed: Out<Address>,
}

// SAFETY: the address is a variable of the registered image, which any thread may use.
unsafe impl Send for Variable {}

/// Everything that is registered. Kernels and variables are found by their host symbols. Kernels of
/// a library, and kernels whose handle the program has queried, are also found by the driver's
/// handle.
#[derive(Debug, Default)]
pub struct Registry {
    images: HashMap<Address, Image>,
    kernels: HashMap<Address, Kernel>,
    variables: HashMap<Address, Variable>,
}

/// The locked registry. It stays locked during calls of the driver, which never call back.
pub fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// `__cudaRegisterFatBinary`: returns the image's handle, a unique address.
    pub fn add_image(&mut self, wrapper: Address) -> Address {
        // Each image has its own address; programs keep handles until they end.
        let handle = Box::leak(Box::new(wrapper)) as *mut Address as Address;
        let image = Image {
            wrapper,
            library: 0,
        };
        self.images.insert(handle, image);
        handle
    }

    /// `__cudaUnregisterFatBinary`: removes the image, and unloads it if it was loaded.
    pub fn remove_image(&mut self, handle: Address) {
        self.kernels.retain(|_, kernel| kernel.image != handle);
        self.variables
            .retain(|_, variable| variable.image != handle);
        let library = self.images.remove(&handle).map_or(0, |image| image.library);
        if library != 0 {
            // The program is ending, so an error is ignored.
            let _ = cu::cuLibraryUnload(library);
        }
    }

    /// `__cudaRegisterFunction`.
    pub fn add_kernel(&mut self, image: Address, stands_for: Address, name: CString) {
        let kernel = Kernel {
            image,
            name,
            handle: 0,
            functions: Vec::new(),
        };
        self.kernels.insert(stands_for, kernel);
    }

    /// `__cudaRegisterVar`, `__cudaRegisterManagedVar`.
    pub fn add_variable(
        &mut self,
        image: Address,
        stands_for: Address,
        name: CString,
        bytes: usize,
        managed: Out<Address>,
    ) {
        let variable = Variable {
            image,
            name,
            bytes,
            managed,
        };
        self.variables.insert(stands_for, variable);
    }

    /// A kernel of a library, launched by the driver's handle.
    pub fn add_library_kernel(&mut self, library: Handle, handle: Handle) {
        let kernel = Kernel {
            image: library,
            name: CString::default(),
            handle,
            functions: Vec::new(),
        };
        self.kernels.entry(handle).or_insert(kernel);
    }

    /// Removes a library's kernels.
    pub fn forget_library(&mut self, library: Handle) {
        self.kernels.retain(|_, kernel| kernel.image != library);
    }

    /// The driver's handle of an image, which is loaded first if necessary.
    fn library(&mut self, image: Address) -> Answer<Handle> {
        let image = self.images.get_mut(&image);
        let image = image.ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
        if image.library == 0 {
            cu::cuLibraryLoadData(Out::to(&mut image.library), image.wrapper, 0, 0, 0, 0, 0, 0)?;
        }
        Ok(image.library)
    }

    /// The driver's handle of a kernel.
    ///
    /// # Errors
    /// `cudaErrorInvalidDeviceFunction` for an unknown kernel.
    pub fn kernel(&mut self, stands_for: Address) -> Answer<Handle> {
        let known = self.kernels.get(&stands_for);
        let known = known.ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
        if known.handle != 0 {
            return Ok(known.handle);
        }
        let image = known.image;
        let library = self.library(image)?;
        let known = self.kernels.get_mut(&stands_for);
        let known = known.ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
        cu::cuLibraryGetKernel(Out::to(&mut known.handle), library, Text::of(&known.name))?;
        let handle = known.handle;
        self.add_library_kernel(image, handle);
        Ok(handle)
    }

    /// The function of a kernel in the current context.
    pub fn function(&mut self, stands_for: Address) -> Answer<Handle> {
        let handle = self.kernel(stands_for)?;
        let context = thread::bound().context;
        let known = self.kernels.get_mut(&stands_for);
        let known = known.ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
        if let Some((_, function)) = known.functions.iter().find(|(of, _)| *of == context) {
            return Ok(*function);
        }
        let mut function = 0;
        cu::cuKernelGetFunction(Out::to(&mut function), handle)?;
        known.functions.push((context, function));
        Ok(function)
    }

    /// What the program identifies a function by: the host symbol of its kernel, or its handle.
    pub fn stands_for(&self, function: Handle) -> Address {
        let mut all = self.kernels.iter();
        let of_program = all.find(|(_, kernel)| {
            let made = kernel.functions.iter().any(|(_, made)| *made == function);
            made && !kernel.name.is_empty()
        });
        of_program.map_or(function, |(stands_for, _)| *stands_for)
    }

    /// The address of a variable on the current device, and its size as registered by the compiler.
    ///
    /// # Errors
    /// `cudaErrorInvalidSymbol` for an unknown variable.
    pub fn variable(&mut self, stands_for: Address) -> Answer<(Address, usize)> {
        let known = self.variables.get(&stands_for).cloned();
        let known = known.ok_or(CudaError::INVALID_SYMBOL)?;
        let library = self.library(known.image)?;
        let name = Text::of(&known.name);
        let mut address = 0;
        if known.managed.is_null() {
            cu::cuLibraryGetGlobal(Out::to(&mut address), Out::NOWHERE, library, name)?;
        } else {
            cu::cuLibraryGetManaged(Out::to(&mut address), Out::NOWHERE, library, name)?;
        }
        Ok((address, known.bytes))
    }

    /// `__cudaInitModule`: allocates an image's managed variables.
    pub fn place_managed(&mut self, image: Address) -> Answer {
        let of_image = |(stands_for, variable): (&Address, &Variable)| {
            let wanted = variable.image == image && !variable.managed.is_null();
            wanted.then_some((*stands_for, variable.managed))
        };
        let managed: Vec<_> = self.variables.iter().filter_map(of_image).collect();
        for (stands_for, place) in managed {
            let (address, _) = self.variable(stands_for)?;
            place.put(address)?;
        }
        Ok(())
    }
}
