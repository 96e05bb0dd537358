//! Effects of calls: evidence, and changes of free memory.

use gpumem_capture::DeviceOrdinal;

use crate::state::code::Loaded;
use crate::state::evidence::{Seen, Weight, What};
use crate::state::origin::Origin;
use crate::state::reservations::{Kind, Reservation};
use crate::state::residual::signed;
use crate::tracker::Tracker;

/// The owner of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionOf {
    /// A module's.
    Module(u64),
    /// A kernel in one context.
    Kernel(u64),
    /// A library: the function is a kernel.
    Library(u64),
    /// The owner that the tracker recorded for it.
    Unknown,
}

impl Tracker {
    /// Records a context as evidence of the memory it takes.
    pub fn context_seen(&mut self, device: DeviceOrdinal, context: u64, how: Seen, origin: Origin) {
        self.changes += 1;
        let libraries: Vec<u64> = self.code.with_kernels().collect();
        let code: Vec<_> = libraries
            .into_iter()
            .map(|library| (self.code.reservation(Loaded { library, context }), context))
            .collect();
        let residual = self.residual(device);
        residual.code.splice(0..0, code);
        let cost = residual.context_cost.filter(|_| how != Seen::Part);
        let weight = cost.map_or(Weight::Unknown, Weight::Remembered);
        let what = What::Context(how);
        let owner = Kind::Context.of(context);
        residual.evidence.add(owner, context, what, weight, origin);
    }

    /// Records that a limit of a context was set.
    pub fn limit_set(&mut self, device: DeviceOrdinal, context: u64, origin: Origin) {
        let owner = Kind::Context.of(context);
        self.leave(device, owner, context, What::Limit, origin);
    }

    /// Records that a module or library was loaded.
    pub fn loaded(&mut self, device: DeviceOrdinal, context: u64, library: u64, origin: Origin) {
        let owner = self.code.reservation(Loaded { library, context });
        self.leave(device, owner, context, What::Load, origin);
    }

    /// Records that a stream was created in a context. `bytes`: the decrease in free memory, queried before and after;
    /// `None` if that is unknown.
    pub fn stream_made(
        &mut self,
        device: DeviceOrdinal,
        context: u64,
        bytes: Option<u64>,
        origin: Origin,
    ) {
        self.changes += 1;
        let owner = Kind::streams_of(context);
        let evidence = &mut self.residual(device).evidence;
        evidence.add_stream(owner, context, bytes, origin);
    }

    /// Records that a module is the part of a library in some context.
    pub fn is_part_of(&mut self, module: u64, library: u64) {
        self.code.is_part(module, library);
    }

    /// Records that a function was looked up, or that its code was requested, in a context.
    pub fn function_got(
        &mut self,
        device: DeviceOrdinal,
        context: u64,
        function: u64,
        of: FunctionOf,
        origin: Origin,
    ) {
        let library = match of {
            FunctionOf::Module(module) => Some(self.code.library_of(module)),
            FunctionOf::Kernel(kernel) => self.code.owner(kernel),
            FunctionOf::Library(library) => Some(library),
            FunctionOf::Unknown => self.code.owner(function),
        };
        let Some(library) = library else {
            let owner = Kind::Context.of(context);
            return self.leave(device, owner, context, What::Function, origin);
        };
        match of {
            FunctionOf::Library(_) => self.code.kernel_got(function, library),
            _ => self.code.got(function, library),
        }
        let owner = self.code.reservation(Loaded { library, context });
        self.leave(device, owner, context, What::Function, origin);
        let code = &mut self.residual(device).code;
        code.retain(|(known, _)| *known != owner);
        code.push((owner, context));
    }

    /// Records that a variable was looked up. Its module may be allocated only now.
    pub fn variable_got(
        &mut self,
        device: DeviceOrdinal,
        context: u64,
        module: u64,
        origin: Origin,
    ) {
        let library = self.code.library_of(module);
        self.loaded(device, context, library, origin);
    }

    /// Records that another thread may have resized a pool between the last query and the pool's end.
    pub fn pool_unasked(&mut self, device: DeviceOrdinal, pool: Reservation, origin: Origin) {
        self.leave(device, pool, 0, What::End, origin);
    }

    /// Whether the module or library of a function or kernel is known.
    pub fn knows_function(&self, function: u64) -> bool {
        self.code.knows(function)
    }

    pub(crate) fn leave(
        &mut self,
        device: DeviceOrdinal,
        owner: Reservation,
        context: u64,
        what: What,
        origin: Origin,
    ) {
        self.changes += 1;
        let evidence = &mut self.residual(device).evidence;
        evidence.add(owner, context, what, Weight::Unknown, origin);
    }

    /// Records the free memory that the driver reports for a device, before a load, or before or after a stream is
    /// created. `None` if other calls were in progress. `explained` are the physical level's live bytes. Returns the
    /// decrease in free memory since the last query, beyond what is explained; `None` if that is unknown.
    pub fn asked_free(
        &mut self,
        device: DeviceOrdinal,
        free: Option<u64>,
        explained: u64,
    ) -> Option<u64> {
        let residual = self.residual(device);
        let before = residual.asked.take();
        residual.asked = free.map(|free| (free, explained));
        let fell = before.zip(free).map(|((was_free, was_explained), free)| {
            let fell = signed(was_free) - signed(free);
            let grown = signed(explained) - signed(was_explained);
            u64::try_from(fell - grown).unwrap_or(0)
        });
        residual.evidence.measured(fell);
        fell
    }
}
