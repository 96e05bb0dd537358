//! The objects of the interpreter's collector, and what each refers to.

use core::ffi::{c_int, c_void};

use rustc_hash::FxHashSet;

use crate::collector;
use crate::limits::{Cut, Limits};
use crate::object::{Object, traverse};
use crate::python::Locked;

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
    /// Which bound ended the reading, if one did.
    pub(crate) cut: Option<Cut>,
}

const FREE: Id = Id::MAX;

/// Collects the references of one object.
struct Collector<'a> {
    heap: &'a mut Heap,
    limits: &'a Limits,
    /// The number of references that were passed, those to other objects included.
    count: u64,
}

impl Heap {
    /// Reads the collector's objects and their references, without those of `running`: objects with frames that run,
    /// whose variables are roots. None if the objects cannot be listed.
    pub(crate) fn read(
        locked: &Locked<'_>,
        running: &FxHashSet<Object>,
        limits: &Limits,
    ) -> Option<Self> {
        let mut heap = Self {
            objects: Vec::new(),
            table: Vec::new(),
            starts: Vec::new(),
            edges: Vec::new(),
            cut: None,
        };
        let is_listed = collector::objects(locked, |object| {
            let count = heap.objects.len();
            heap.cut = match () {
                _ if count >= limits.objects => Some(Cut::Size),
                _ if count == heap.objects.capacity()
                    && heap.objects.try_reserve(count.max(1 << 16)).is_err() =>
                {
                    Some(Cut::Memory)
                }
                _ => None,
            };
            if heap.cut.is_none() {
                heap.objects.push(object);
            }
            heap.cut.is_none()
        });
        if !is_listed {
            return None;
        }
        if heap.index().is_none() {
            heap.cut = Some(Cut::Memory);
            heap.objects.clear();
        }
        heap.collect(running, limits);
        Some(heap)
    }

    /// Fills the table. None without memory.
    fn index(&mut self) -> Option<()> {
        let count = self.objects.len();
        let places = (count * 2).next_power_of_two().max(16);
        self.table.try_reserve_exact(places).ok()?;
        self.starts.try_reserve_exact(count + 1).ok()?;
        self.table.resize(places, FREE);
        let mask = places - 1;
        for (number, object) in self.objects.iter().enumerate() {
            let mut place = hash(*object) & mask;
            while self.table.get(place).is_some_and(|used| *used != FREE) {
                place = (place + 1) & mask;
            }
            if let Some(free) = self.table.get_mut(place) {
                *free = number as Id;
            }
        }
        Some(())
    }

    fn collect(&mut self, running: &FxHashSet<Object>, limits: &Limits) {
        let mut collector = Collector {
            heap: self,
            limits,
            count: 0,
        };
        for number in 0..collector.heap.objects.len() {
            let heap = &mut *collector.heap;
            heap.starts.push(heap.edges.len() as u32);
            if number % 1024 == 0 && limits.is_over() {
                heap.cut = Some(Cut::Time);
            }
            let object = heap.object(number as Id);
            let may = heap.cut.is_none_or(|cut| cut == Cut::Size);
            if may
                && !running.contains(&object)
                && let Some(traverse) = traverse(object)
            {
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

    /// All references between objects: to which object each is.
    pub(crate) fn edges(&self) -> &[Id] {
        &self.edges
    }
}

/// `visitproc`: adds a reference.
unsafe extern "C" fn collected(object: Object, collector: *mut c_void) -> c_int {
    // SAFETY: the address of the collector of the call of `traverse`.
    let Collector {
        heap,
        limits,
        count,
    } = unsafe { &mut *collector.cast::<Collector<'_>>() };
    *count += 1;
    if count.is_multiple_of(1 << 18) && limits.is_over() {
        heap.cut = Some(Cut::Time);
        return 1;
    }
    let Some(number) = heap.number(object) else {
        return 0;
    };
    let count = heap.edges.len();
    heap.cut = match () {
        _ if count >= limits.references => Some(Cut::Size),
        _ if count == heap.edges.capacity()
            && heap.edges.try_reserve(count.max(1 << 18)).is_err() =>
        {
            Some(Cut::Memory)
        }
        _ => {
            heap.edges.push(number);
            return 0;
        }
    };
    1
}

fn hash(object: Object) -> usize {
    ((object as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize
}
