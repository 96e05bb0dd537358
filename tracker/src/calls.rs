//! What calls leave behind: evidence, and how much was free.

use gpumem_capture::DeviceOrdinal;

use crate::state::code::Loaded;
use crate::state::evidence::{Seen, Weight, What};
use crate::state::origin::Origin;
use crate::state::reservations::{Kind, Reservation};
use crate::state::residual::signed;
use crate::tracker::Tracker;

/// Whose a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionOf {
    /// A module's.
    Module(u64),
    /// That of a kernel, in one context.
    Kernel(u64),
    /// A library's: a kernel.
    Library(u64),
    /// That of whoever it was got from.
    Unknown,
}

impl Tracker {
    /// A context is there: evidence of what it takes.
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

    /// A limit of a context was set.
    pub fn limit_set(&mut self, device: DeviceOrdinal, context: u64, origin: Origin) {
        let owner = Kind::Context.of(context);
        self.leave(device, owner, context, What::Limit, origin);
    }

    /// A module or library was loaded.
    pub fn loaded(&mut self, device: DeviceOrdinal, context: u64, library: u64, origin: Origin) {
        let owner = self.code.reservation(Loaded { library, context });
        self.leave(device, owner, context, What::Load, origin);
    }

    /// A stream was made in a context: free memory, asked for before and after, fell by so many bytes; `None` if that is
    /// not known.
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

    /// A module is the part of a library in some context.
    pub fn is_part_of(&mut self, module: u64, library: u64) {
        self.code.is_part(module, library);
    }

    /// A function was got, or its code was asked for, in a context.
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

    /// What a variable is of may be given its memory only now.
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

    /// Another thread may have made a pool larger or smaller between the last question about it and its end.
    pub fn pool_unasked(&mut self, device: DeviceOrdinal, pool: Reservation, origin: Origin) {
        self.leave(device, pool, 0, What::End, origin);
    }

    /// Whether a function or kernel is known to be of a module or library.
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

    /// The driver says how much of a device is free, before something is loaded, or before or after a stream is made:
    /// `None` if other calls were in progress. `explained` are the physical level's live bytes. Returns by how much free
    /// memory fell since it was last asked for, beyond what is explained; `None` if that is not known.
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
