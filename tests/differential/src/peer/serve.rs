//! The peer's side: carries out requests with the driver's functions, and keeps the items.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use gpumem_cuda_abi::{CuIpcMemHandle, CuMemAccessDesc, CuMemLocation, CuMemLocationType};

use super::channel::{receive, send};
use super::message::{Answer, Request, Wanted};
use crate::cuda::Cuda;
use crate::driver::{Driver, Reach};
use crate::families::{pool, vmm};
use crate::pass::{Addr, Made, Private};

/// `CUDA_ERROR_INVALID_VALUE`.
const INVALID_VALUE: u32 = 1;
/// `CUDA_ERROR_INVALID_HANDLE`.
const INVALID_HANDLE: u32 = 400;

/// An item of the peer.
enum Item {
    Memory(Addr),
    Handle(u64),
    Pool(usize),
    PoolMemory(Addr),
    OpenMemory(Private<usize>),
    OpenHandle { handle: u64, at: Addr, bytes: usize },
}

struct Server {
    cuda: Cuda,
    items: BTreeMap<u64, Item>,
    made: u64,
    /// The primary context of each device that was used.
    contexts: BTreeMap<i32, usize>,
}

/// The result of a successful request.
#[derive(Default)]
struct Given {
    item: Option<Item>,
    data: Option<[u8; 64]>,
    file: Option<OwnedFd>,
}

impl From<Item> for Given {
    fn from(item: Item) -> Self {
        Self {
            item: Some(item),
            ..Self::default()
        }
    }
}

type Done = Result<Given, u32>;

fn check(code: u32) -> Result<(), u32> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// Answers requests until the program ends.
///
/// # Errors
/// The missing driver function.
pub fn run() -> Result<(), String> {
    let driver: &'static Driver = Box::leak(Box::new(Driver::load(&Reach::default())?));
    let mut server = Server {
        cuda: Cuda::new(driver, 0),
        items: BTreeMap::new(),
        made: 0,
        contexts: BTreeMap::new(),
    };
    server.cuda.cuInit(0);
    // SAFETY: the program has placed this process's end of the sockets there.
    let socket = unsafe { OwnedFd::from_raw_fd(0) };
    while let Some((request, file)) = receive::<Request>(&socket) {
        let wanted = Wanted::ALL
            .into_iter()
            .find(|w| *w as u32 == request.wanted);
        let done = match wanted {
            Some(wanted) => server.answer(wanted, &request, file),
            None => Err(INVALID_VALUE),
        };
        let (code, given) = match done {
            Ok(given) => (0, given),
            Err(code) => (code, Given::default()),
        };
        let answer = Answer {
            code,
            reserved: 0,
            item: given.item.map_or(0, |item| server.keep(item)),
            data: given.data.unwrap_or([0; 64]),
        };
        if !send(
            &socket,
            &answer,
            given.file.as_ref().map(AsRawFd::as_raw_fd),
        ) {
            break;
        }
    }
    Ok(())
}

impl Server {
    fn keep(&mut self, item: Item) -> u64 {
        self.made += 1;
        self.items.insert(self.made, item);
        self.made
    }

    /// Makes the primary context of a device current.
    fn enter(&mut self, device: i32) -> Result<(), u32> {
        let context = match self.contexts.get(&device) {
            Some(context) => *context,
            None => {
                let mut context = 0;
                check(
                    self.cuda
                        .cuDevicePrimaryCtxRetain(Some(&mut context), device),
                )?;
                self.contexts.insert(device, context);
                context
            }
        };
        check(self.cuda.cuCtxSetCurrent(context))
    }

    /// The request and its descriptor are dropped when it is done.
    fn answer(&mut self, wanted: Wanted, request: &Request, file: Option<OwnedFd>) -> Done {
        let bytes = request.bytes as usize;
        let number = file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let properties = vmm::properties(Some(request.device));
        match wanted {
            Wanted::Allocate => {
                self.enter(request.device)?;
                let mut pointer = Made(0);
                check(self.cuda.cuMemAlloc_v2(Some(&mut pointer), bytes))?;
                Ok(Item::Memory(Addr(pointer.0)).into())
            }
            Wanted::Create => {
                self.enter(request.device)?;
                let mut handle = 0;
                check(
                    self.cuda
                        .cuMemCreate(Some(&mut handle), bytes, Some(&properties), 0),
                )?;
                Ok(Item::Handle(handle).into())
            }
            Wanted::MakePool => {
                let (mut made, properties) = (0, pool::properties(request.device, 0));
                check(
                    self.cuda
                        .cuMemPoolCreate(Some(&mut made), Some(&properties)),
                )?;
                Ok(Item::Pool(made).into())
            }
            Wanted::AllocateFromPool => self.allocate_from_pool(request),
            Wanted::ShareMemory
            | Wanted::ShareHandle
            | Wanted::SharePool
            | Wanted::SharePointer => self.share(wanted, request.item),
            Wanted::OpenMemory => {
                self.enter(request.device)?;
                let (mut opened, reserved) = (Private(0), request.data);
                let handle = CuIpcMemHandle { reserved };
                check(
                    self.cuda
                        .cuIpcOpenMemHandle_v2(Some(&mut opened), handle, 1),
                )?;
                Ok(Item::OpenMemory(opened).into())
            }
            Wanted::OpenHandle => self.open_handle(request, number),
            Wanted::OpenPool => {
                let (mut made, shared) = (0, Private(number as usize));
                check(
                    self.cuda
                        .cuMemPoolImportFromShareableHandle(Some(&mut made), shared, 1, 0),
                )?;
                Ok(Item::Pool(made).into())
            }
            Wanted::OpenPointer => {
                self.enter(request.device)?;
                let pool = self.pool(request.item)?;
                let (mut pointer, data) = (Made(0), Private(request.data));
                check(
                    self.cuda
                        .cuMemPoolImportPointer(Some(&mut pointer), pool, Some(&data)),
                )?;
                Ok(Item::PoolMemory(Addr(pointer.0)).into())
            }
            Wanted::Release => {
                let item = self.items.remove(&request.item);
                check(self.release(item.ok_or(INVALID_HANDLE)?))?;
                Ok(Given::default())
            }
            Wanted::Reset => {
                // The newest first, so that memory of a pool is released before the pool.
                let mut first = Ok(());
                while let Some((_, item)) = self.items.pop_last() {
                    first = first.and(check(self.release(item)));
                }
                while let Some((device, _)) = self.contexts.pop_last() {
                    first = first.and(check(self.cuda.cuDevicePrimaryCtxRelease_v2(device)));
                }
                self.cuda.cuCtxSetCurrent(0);
                first.map(|()| Given::default())
            }
        }
    }

    fn pool(&self, item: u64) -> Result<usize, u32> {
        match self.items.get(&item) {
            Some(Item::Pool(pool)) => Ok(*pool),
            _ => Err(INVALID_HANDLE),
        }
    }

    fn allocate_from_pool(&mut self, request: &Request) -> Done {
        self.enter(request.device)?;
        let (mut pointer, pool) = (Made(0), self.pool(request.item)?);
        check(self.cuda.cuMemAllocFromPoolAsync(
            Some(&mut pointer),
            request.bytes as usize,
            pool,
            0,
        ))?;
        Ok(Item::PoolMemory(Addr(pointer.0)).into())
    }

    fn share(&mut self, wanted: Wanted, item: u64) -> Done {
        let mut given = Given::default();
        match (wanted, self.items.get(&item)) {
            (Wanted::ShareMemory, Some(Item::Memory(pointer))) => {
                let mut handle = CuIpcMemHandle { reserved: [0; 64] };
                check(self.cuda.cuIpcGetMemHandle(Some(&mut handle), *pointer))?;
                given.data = Some(handle.reserved);
            }
            (Wanted::SharePointer, Some(Item::PoolMemory(pointer))) => {
                let mut data = Private([0; 64]);
                check(self.cuda.cuMemPoolExportPointer(Some(&mut data), *pointer))?;
                given.data = Some(data.0);
            }
            (Wanted::ShareHandle, Some(Item::Handle(handle))) => {
                let mut file = Private(-1);
                check(
                    self.cuda
                        .cuMemExportToShareableHandle(Some(&mut file), *handle, 1, 0),
                )?;
                // SAFETY: the driver created this descriptor for this process.
                given.file = Some(unsafe { OwnedFd::from_raw_fd(file.0) });
            }
            (Wanted::SharePool, Some(Item::Pool(pool))) => {
                let mut file = Private(usize::MAX);
                check(
                    self.cuda
                        .cuMemPoolExportToShareableHandle(Some(&mut file), *pool, 1, 0),
                )?;
                // SAFETY: as above; it is in the lower half of the variable.
                given.file = Some(unsafe { OwnedFd::from_raw_fd(file.0 as u32 as i32) });
            }
            _ => return Err(INVALID_HANDLE),
        }
        Ok(given)
    }

    fn open_handle(&mut self, request: &Request, file: i32) -> Done {
        self.enter(request.device)?;
        let (mut handle, mut at) = (0, Made(0));
        let bytes = request.bytes as usize;
        check(self.cuda.cuMemImportFromShareableHandle(
            Some(&mut handle),
            Private(file as usize),
            1,
        ))?;
        let access = CuMemAccessDesc {
            location: CuMemLocation {
                kind: CuMemLocationType::DEVICE,
                id: request.device,
            },
            flags: 3,
        };
        check(
            self.cuda
                .cuMemAddressReserve(Some(&mut at), bytes, 0, Addr(0), 0),
        )?;
        let at = Addr(at.0);
        check(self.cuda.cuMemMap(at, bytes, 0, handle, 0))?;
        check(self.cuda.cuMemSetAccess(at, bytes, Some(&access), 1))?;
        Ok(Item::OpenHandle { handle, at, bytes }.into())
    }

    fn release(&mut self, item: Item) -> u32 {
        match item {
            Item::Memory(pointer) | Item::PoolMemory(pointer) => self.cuda.cuMemFree_v2(pointer),
            Item::Handle(handle) => self.cuda.cuMemRelease(handle),
            Item::Pool(pool) => self.cuda.cuMemPoolDestroy(pool),
            Item::OpenMemory(pointer) => self.cuda.cuIpcCloseMemHandle(pointer),
            Item::OpenHandle { handle, at, bytes } => {
                let codes = [
                    self.cuda.cuMemUnmap(at, bytes),
                    self.cuda.cuMemAddressFree(at, bytes),
                    self.cuda.cuMemRelease(handle),
                ];
                codes.into_iter().find(|code| *code != 0).unwrap_or(0)
            }
        }
    }
}
