//! The simulated `libcufft.so.12`: plans with work areas, and transforms that compute nothing.
//!
//! The size of a plan's work area follows a documented model ([`work_area`]). The plan allocates it
//! through the driver, as in the real library, unless the caller provides it. The rest of a plan
//! (its tables and kernels) costs nothing here.
//!
//! # Environment `GPUMEM_SIM_CUFFT_WORKSPACE`: `low`, `likely` (the default) or `high`, the figure
//! of the model's range for work areas.
//!
//! # Not suitable for
//! Computing anything. Callbacks, several devices, code for device functions.

mod call;
mod plan;
pub mod table;
pub mod work_area;
