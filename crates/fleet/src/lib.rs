//! What the parts of a fleet say to each other: where an object shall be, what is sent there, how it is known there.
//!
//! ```text
//!   object ─ placement ─► view of a cluster ─ lines ─► syncer ─ marks ─► object below
//!                               ▲                        │
//!                               └──────── records ◄──────┘
//! ```
//!
//! Pure: no I/O, no clock, no async. Servers make views of it, syncers follow them.

pub mod marks;
pub mod placement;
pub mod shape;
pub mod view;

pub use placement::Placement;
pub use shape::shape;
