//! The simulated `libcusolver.so.12`: handles, workspace sizes and statuses; no algebra.
//!
//! Factorisations and solvers succeed: their statuses (`devInfo`) become 0 on the handle's stream, and
//! matrices stay as they are. Workspaces belong to the caller, who asks for their sizes first; these
//! follow LAPACK's rules ([`workspace`]). A handle costs no memory here.
//!
//! # Environment
//! `GPUMEM_SIM_CUSOLVER_WORKSPACE`: `low`, `likely` (the default) or `high`, which end of the model's
//! range a workspace has.
//!
//! # Not suitable for
//! Computing anything. Sparse matrices, refactorisation, iterative refinement, several devices.

mod handle;
mod solve;
mod status;
pub mod table;
pub mod workspace;
