//! Controllers of Services: the addresses and ports of their pods.
//!
//! ```text
//!   Services, Pods ─► service_pods ─┬─► endpoint_slice ─► slice_writes ─► EndpointSlices
//!                                   └─► endpoints ─► Endpoints                ▲
//!   Endpoints of Services without a selector ─► endpoint_slice_mirroring ─────┘
//! ```
//!
//! `large_services` decides when a Service with many pods or ports is reconciled.

pub mod endpoint_slice;
pub mod endpoint_slice_mirroring;
pub mod endpoints;
mod large_services;
#[cfg(test)]
mod random_services;
pub(crate) mod service_pods;
pub(crate) mod slice_writes;
