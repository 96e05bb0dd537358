//! analyzer

pub mod python;
