//! From names to addresses: the exported `dlsym`, `dlopen` and `dlclose`, what `cuGetProcAddress` hands out, and the way
//! from a hook to the function behind it.

pub(crate) mod dlclose;
pub(crate) mod dlopen;
pub(crate) mod dlsym;
pub(crate) mod elf;
pub(crate) mod libraries;
mod loaded_names;
pub(crate) mod order;
pub(crate) mod proc_address;
pub(crate) mod real;
pub(crate) mod unhooked;
mod versions;
