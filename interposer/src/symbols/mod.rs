//! Names and addresses: the table of hooks, the overridden `dlsym` and `cuGetProcAddress`, and the way
//! from a hook to the function behind it.

pub(crate) mod bound;
pub(crate) mod dlclose;
pub(crate) mod dlopen;
pub(crate) mod dlsym;
pub(crate) mod driver;
pub(crate) mod elf;
pub(crate) mod libraries;
mod order;
pub(crate) mod proc_address;
mod requests;
pub(crate) mod table;
