//! Reads PyTorch's tensors from their Python objects.
//!
//! ```text
//! Python object ─► TensorImpl ─┬─ storage ─► StorageImpl ─ data ─► the block
//!                              └─ autograd ─► AutogradMeta ─┬─ grad ─► TensorImpl ─ … ─► the gradient's block
//!                                                           └─ grad_fn ─► the graph
//! ```
//! The interpreter's lock is held. The first object on each path is checked: that it is mapped, and of the expected class.

use gpumem_capture::DeviceOrdinal;
use gpumem_holders::{Graph, Memory, Saved, Tensors};

use super::graph;
use crate::backward::objects::{DATA_PATHS, DataPath, field, gradient_at, is_of_class, word};
use crate::session::Session;

/// The offsets of the pointer to the `TensorImpl` in a Python object: as `at::Tensor`, and as `c10::MaybeOwned` of it.
const PLACES: [usize; 2] = [16, 24];
/// The classes of objects.
const TENSOR: &[u8] = b"N3c1010TensorImplE";
const AUTOGRAD: [&[u8]; 2] = [
    b"N5torch8autograd12AutogradMetaE",
    b"N5torch8autograd22DifferentiableViewMetaE",
];

/// From this number of tensors on, all live blocks are listed, instead of one after the other looked up.
const MANY: usize = 1 << 12;

/// A tensor's memory, before it is known whether that is a block of the device.
struct Storage {
    address: u64,
    /// The bytes of the tensor's elements, of a view.
    covers: Option<u64>,
    is_double: bool,
    references: u32,
    sharers: u32,
}

impl Storage {
    fn memory(&self, bytes: u64) -> Memory {
        Memory {
            block: self.address,
            bytes,
            covers: self.covers.unwrap_or(bytes),
            is_double: self.is_double,
            references: self.references,
            sharers: self.sharers,
        }
    }
}

/// The offset of a storage's bytes behind that of its data's address.
const SIZE: usize = 32;
/// The offsets of a tensor's number of dimensions behind that of its storage, in newer and in older forms.
const DIMENSIONS: [usize; 2] = [40, 48];
/// The dimensions whose sizes are in the tensor itself. Their strides, the offset in the storage, the number of elements
/// and the type follow.
const INLINE: usize = 5;
/// The bytes of an element, by the number of its type.
const ITEMS: [u64; 16] = [1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2];
/// The number of float64.
const DOUBLE: usize = 7;

/// The bytes of a tensor's elements, and whether these are float64. None if they are not known: of types that are rare,
/// and of tensors with many dimensions.
///
/// # Safety
/// `tensor` is the address of a live `TensorImpl` that has the pointer to its storage at `storage`.
unsafe fn elements(tensor: usize, storage: usize) -> Option<(u64, bool)> {
    DIMENSIONS.into_iter().find_map(|place| {
        // SAFETY: promised by the caller; even in the smaller form, the larger offset is within the object.
        let at = |index: usize| unsafe { field(tensor, storage + place + 8 * index) };
        let dimensions = at(0).filter(|dimensions| *dimensions <= INLINE)?;
        let size = |size: usize, index| size.checked_mul(at(index)?);
        let size = (1..=dimensions).try_fold(1, size)?;
        let behind = 1 + 2 * INLINE;
        // The layout is another one if the sizes do not give the number of elements.
        let count = at(behind + 1).filter(|count| *count == size)?;
        let kind = at(behind + 2)? & 0xffff;
        let bytes = (count as u64).checked_mul(*ITEMS.get(kind)?)?;
        Some((bytes, kind == DOUBLE))
    })
}

/// Reads tensors of one device.
pub(super) struct Reader<'a> {
    session: &'a Session,
    device: DeviceOrdinal,
    /// The offset of the pointer to the tensor, and the vtable of its class, once a tensor was found.
    tensor: Option<(usize, usize)>,
    path: Option<DataPath>,
    /// Vtables of autograd's data, and the offset of the gradient.
    autograd: Vec<(usize, usize)>,
    /// Vtables of other classes.
    others: Vec<usize>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(session: &'a Session, device: DeviceOrdinal) -> Self {
        Self {
            session,
            device,
            tensor: None,
            path: None,
            autograd: Vec::new(),
            others: Vec::new(),
        }
    }

    /// The `TensorImpl` of a Python object that is a tensor.
    fn tensor(&mut self, object: usize) -> Option<usize> {
        if let Some((place, class)) = self.tensor {
            // SAFETY: a tensor's object has the pointer there; the object that it points to begins with its class.
            let tensor = unsafe { field(object, place) }?;
            // SAFETY: as above.
            return (unsafe { field(tensor, 0) }? == class).then_some(tensor);
        }
        for place in PLACES {
            let found = word(object + place).and_then(|tensor| Some((tensor, word(tensor)?)));
            if let Some((tensor, class)) = found
                && is_of_class(class, TENSOR)
            {
                self.tensor = Some((place, class));
                return Some(tensor);
            }
        }
        None
    }

    /// The address of the memory of a tensor that a Python object keeps.
    fn storage(&mut self, tensor: usize) -> Option<Storage> {
        let Some([storage, data]) = self.path else {
            let known = |[storage, data]: &&DataPath| {
                let address = word(tensor + storage).and_then(|storage| word(storage + data));
                address.is_some_and(|address| self.session.tensors.at(address as u64).is_some())
            };
            self.path = Some(*DATA_PATHS.iter().find(known)?);
            return self.storage(tensor);
        };
        // SAFETY: a tensor of the known class has a storage, or null; both live as long as the Python object, and their
        // counts stand behind their vtables.
        unsafe {
            let elements = elements(tensor, storage);
            let storage = field(tensor, storage)?;
            let whole = field(storage, data + SIZE)? as u64;
            Some(Storage {
                address: field(storage, data)? as u64,
                covers: elements
                    .map(|(bytes, _)| bytes)
                    .filter(|bytes| *bytes < whole),
                is_double: elements.is_some_and(|(_, is_double)| is_double),
                references: field(tensor, 8)? as u32,
                sharers: field(storage, 8)? as u32,
            })
        }
    }

    /// The memory of a tensor at an address where something else may be.
    fn at(&self, tensor: usize) -> Option<Memory> {
        let (_, class) = self.tensor?;
        if graph::word(tensor)? != class {
            return None;
        }
        let [storage, data] = self.path?;
        let storage = graph::word(tensor + storage)?;
        let block = graph::word(storage + data)? as u64;
        let known = self.session.tensors.at(block)?;
        (known.device == self.device).then_some(Memory {
            block,
            bytes: known.bytes,
            covers: known.bytes,
            is_double: false,
            references: graph::word(tensor + 8)? as u32,
            sharers: 0,
        })
    }

    /// What autograd stores with a tensor at an address where something else may be, and where the gradient is in it.
    fn autograd_at(&self, tensor: usize) -> Option<(usize, usize)> {
        let ((_, class), [storage, _]) = (self.tensor?, self.path?);
        let autograd =
            (graph::word(tensor)? == class).then(|| graph::word(tensor + storage + 8))??;
        let class = graph::word(autograd)?;
        let (_, gradient) = self.autograd.iter().find(|(known, _)| *known == class)?;
        Some((autograd, *gradient))
    }

    /// What autograd stores with a tensor, and where the gradient is in it.
    fn autograd(&mut self, tensor: usize) -> Option<(usize, usize)> {
        let [storage, _] = self.path?;
        // SAFETY: a tensor has the pointer behind that to its storage.
        let autograd = unsafe { field(tensor, storage + 8) }?;
        // SAFETY: an object with virtual functions, which the tensor owns.
        let class = unsafe { field(autograd, 0) }?;
        if let Some((_, gradient)) = self.autograd.iter().find(|(known, _)| *known == class) {
            return Some((autograd, *gradient));
        }
        if self.others.contains(&class) {
            return None;
        }
        if !AUTOGRAD.iter().any(|name| is_of_class(class, name)) {
            self.others.push(class);
            return None;
        }
        let gradient = gradient_at(autograd)?;
        self.autograd.push((class, gradient));
        Some((autograd, gradient))
    }
}

impl Tensors for Reader<'_> {
    fn is_tensor(&self, class: &str) -> bool {
        // `_TensorBase` until 2.0.
        class.starts_with("torch._C.") && class.ends_with("TensorBase")
    }

    fn memories(&mut self, objects: &[usize], each: &mut dyn FnMut(usize, Memory)) {
        let mut storages = Vec::with_capacity(objects.len());
        for (at, object) in objects.iter().enumerate() {
            let storage = self.tensor(*object).and_then(|tensor| self.storage(tensor));
            storages.extend(storage.map(|storage| (storage, at)));
        }
        let mut pass = |(storage, at): &(Storage, usize), bytes| {
            each(*at, storage.memory(bytes));
        };
        if storages.len() < MANY {
            for storage in &storages {
                let block = self.session.tensors.at(storage.0.address);
                if let Some(block) = block.filter(|block| block.device == self.device) {
                    pass(storage, block.bytes);
                }
            }
            return;
        }
        let mut live = Vec::with_capacity(storages.len());
        self.session.tensors.each(|address, block| {
            if block.device == self.device {
                live.push((address, block.bytes));
            }
        });
        live.sort_unstable();
        storages.sort_unstable_by_key(|(storage, _)| storage.address);
        let mut live = live.into_iter().peekable();
        for storage in &storages {
            let address = storage.0.address;
            while live.next_if(|(block, _)| *block < address).is_some() {}
            if let Some((_, bytes)) = live.peek().filter(|(block, _)| *block == address) {
                pass(storage, *bytes);
            }
        }
    }

    fn gradient(&mut self, object: usize) -> Option<Memory> {
        let tensor = self.tensor(object)?;
        let (autograd, gradient) = self.autograd(tensor)?;
        // SAFETY: the offset of a pointer in an object of a known class. What it points to may be replaced by a thread that
        // runs a backward.
        self.at(unsafe { field(autograd, gradient) }?)
    }

    fn graph(&mut self, object: usize) -> Option<Graph> {
        let tensor = self.tensor(object)?;
        let (autograd, gradient) = self.autograd(tensor)?;
        // SAFETY: as above; the graph hangs on the tensor.
        let node = unsafe { field(autograd, gradient + 8) }.filter(|node| *node != 0)?;
        let order = graph::order(self.session, node)?;
        Some(Graph { node, order })
    }

    fn graph_of_gradient(&mut self, object: usize) -> Option<Graph> {
        let tensor = self.tensor(object)?;
        let (autograd, gradient) = self.autograd(tensor)?;
        // SAFETY: as above; what it points to may be replaced.
        let of = unsafe { field(autograd, gradient) }?;
        let (autograd, gradient) = self.autograd_at(of)?;
        let node = graph::word(autograd + gradient + 8).filter(|node| *node != 0)?;
        let order = graph::order(self.session, node)?;
        Some(Graph { node, order })
    }

    fn saved(&mut self, graphs: &[Graph]) -> Vec<Saved> {
        let nodes: Vec<usize> = graphs.iter().map(|graph| graph.node).collect();
        let gradient = |tensor| {
            let (autograd, gradient) = self.autograd_at(tensor)?;
            graph::word(autograd + gradient)
        };
        graph::saved(self.session, &|tensor| self.at(tensor), &gradient, &nodes)
    }
}
