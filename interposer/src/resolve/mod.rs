//! From names to addresses: the exported `dlsym`, `dlopen` and `dlclose`, the results of `cuGetProcAddress`, and the
//! real function behind each hook.

pub(crate) mod dlclose;
pub(crate) mod dlopen;
pub(crate) mod dlsym;
pub(crate) mod elf;
pub(crate) mod libraries;
mod loaded_names;
pub(crate) mod order;
pub(crate) mod patched;
pub(crate) mod proc_address;
pub(crate) mod real;
pub(crate) mod unhooked;
mod versions;
