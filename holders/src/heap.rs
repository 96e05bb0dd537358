//! The objects of the interpreter's collector, and what each refers to.

use core::ffi::{c_int, c_void};

use crate::Limits;
use crate::python::{Locked, Object, traverse};

/// The number of an object.
pub(crate) type Id = u32;

/// Objects and the references between them.
pub(crate) struct Heap {
    pub(crate) objects: Vec<Object>,
    /// By address, open addressing: the number of the object, or [`FREE`].
    table: Vec<Id>,
    /// The references of an object: those from its number's entry up to the next entry.
    starts: Vec<u32>,
    edges: Vec<Id>,
    /// Which bound ended the collecting, if one did.
    pub(crate) cut: Option<Cut>,
}

/// A bound that a walk reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The time.
    Time,
    /// The number of objects or references.
    Size,
    /// No memory was left.
    Memory,
}

const FREE: Id = Id::MAX;

/// Collects the references of one object.
struct Collector<'a> {
    heap: &'a mut Heap,
    most: usize,
}

impl Heap {
    /// Lists the collector's objects and their references. None without the list.
    pub(crate) fn read(locked: &Locked, limits: &Limits) -> Option<Self> {
        let list = locked.call(c"get_objects");
        if list == 0 {
            return None;
        }
        let heap = Self::of(locked, list, limits);
        locked.release(list);
        Some(heap)
    }

    fn of(locked: &Locked, list: Object, limits: &Limits) -> Self {
        let python = &locked.python;
        // SAFETY: a list that only we have.
        let length = unsafe { (python.PyList_Size)(list) };
        let length = usize::try_from(length).unwrap_or(0);
        let count = length.min(limits.objects);
        let mut heap = Self {
            objects: Vec::new(),
            table: Vec::new(),
            starts: Vec::new(),
            edges: Vec::new(),
            cut: (count < length).then_some(Cut::Size),
        };
        let places = (count * 2).next_power_of_two().max(16);
        let has_room = heap.objects.try_reserve_exact(count).is_ok()
            && heap.table.try_reserve_exact(places).is_ok()
            && heap.starts.try_reserve_exact(count + 1).is_ok();
        if !has_room {
            heap.cut = Some(Cut::Memory);
            return heap;
        }
        heap.table.resize(places, FREE);
        for at in 0..count {
            // SAFETY: an entry of the list.
            let object = unsafe { (python.PyList_GetItem)(list, at as isize) };
            heap.insert(object);
        }
        heap.collect(limits);
        heap
    }

    fn insert(&mut self, object: Object) {
        let mask = self.table.len() - 1;
        let mut place = hash(object) & mask;
        while let Some(number) = self.table.get(place)
            && *number != FREE
        {
            place = (place + 1) & mask;
        }
        if let Some(number) = self.table.get_mut(place) {
            *number = self.objects.len() as Id;
            self.objects.push(object);
        }
    }

    fn collect(&mut self, limits: &Limits) {
        for number in 0..self.objects.len() {
            self.starts.push(self.edges.len() as u32);
            if number % 1024 == 0 && limits.is_over() {
                self.cut = Some(Cut::Time);
            }
            let Some(&object) = self.objects.get(number) else {
                break;
            };
            if self.cut.is_none_or(|cut| cut == Cut::Size)
                && let Some(traverse) = traverse(object)
            {
                let most = limits.references;
                let mut collector = Collector { heap: self, most };
                // SAFETY: a live object of a class with this function, which calls `collected` for each reference, with
                // the lock held, as the collector does.
                unsafe { traverse(object, collected, (&raw mut collector).cast()) };
            }
        }
        self.starts.push(self.edges.len() as u32);
    }

    /// The number of the object at this address, if the collector has it.
    pub(crate) fn number(&self, object: Object) -> Option<Id> {
        let mask = self.table.len().checked_sub(1)?;
        let mut place = hash(object) & mask;
        loop {
            let number = *self.table.get(place)?;
            if *self.objects.get(number as usize)? == object {
                return Some(number);
            }
            place = (place + 1) & mask;
        }
    }

    /// An object's address.
    pub(crate) fn object(&self, number: Id) -> Object {
        self.objects.get(number as usize).copied().unwrap_or(0)
    }

    /// What an object refers to, as often as it refers to it.
    pub(crate) fn references(&self, number: Id) -> &[Id] {
        let at = number as usize;
        let bounds = self.starts.get(at).zip(self.starts.get(at + 1));
        bounds
            .and_then(|(from, to)| self.edges.get(*from as usize..*to as usize))
            .unwrap_or(&[])
    }

    /// The number of references between objects.
    pub(crate) fn edges(&self) -> usize {
        self.edges.len()
    }
}

/// `visitproc`: adds a reference.
unsafe extern "C" fn collected(object: Object, collector: *mut c_void) -> c_int {
    // SAFETY: the address of the collector of the call of `traverse`.
    let Collector { heap, most } = unsafe { &mut *collector.cast::<Collector<'_>>() };
    let Some(number) = heap.number(object) else {
        return 0;
    };
    if heap.edges.len() >= *most {
        heap.cut = Some(Cut::Size);
        return 0;
    }
    if heap.edges.len() == heap.edges.capacity() && heap.edges.try_reserve(1 << 16).is_err() {
        heap.cut = Some(Cut::Memory);
        return 0;
    }
    heap.edges.push(number);
    0
}

fn hash(object: Object) -> usize {
    ((object as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize
}
