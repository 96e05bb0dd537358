//! The simulated `libcufft.so.12`: plans with work areas, and transforms that compute nothing.
//!
//! A plan's work area has a size by a documented model ([`work_area`]); the plan allocates it through
//! the driver, as the real one does, unless the caller has said that it will. The rest of a plan (its
//! tables and kernels) costs nothing here.
//!
//! # Environment
//! `GPUMEM_SIM_CUFFT_WORKSPACE`: `low`, `likely` (the default) or `high`, which end of the model's
//! range a plan asks for.
//!
//! # Not suitable for
//! Computing anything. Callbacks, several devices, code for device functions.

mod call;
mod plan;
pub mod table;
pub mod work_area;
