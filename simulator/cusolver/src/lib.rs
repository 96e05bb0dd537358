//! The simulated `libcusolver.so.12`: handles, workspace sizes and statuses; no computation.
//!
//! Factorisations and solvers succeed: their statuses (`devInfo`) become 0 on the handle's stream,
//! and matrices do not change. Workspaces belong to the caller, who queries their sizes first; the
//! sizes follow LAPACK's rules ([`workspace`]). A handle costs no memory here.
//!
//! # Environment `GPUMEM_SIM_CUSOLVER_WORKSPACE`: `low`, `likely` (the default) or `high`, the
//! figure of the model's range for workspaces.
//!
//! # Not suitable for
//! Computing anything. Sparse matrices, refactorisation, iterative refinement, several devices.

mod handle;
mod solve;
mod status;
pub mod table;
pub mod workspace;
