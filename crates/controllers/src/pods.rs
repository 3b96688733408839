//! Pods as those see them who make them: which count, which go first, how more come to be.
//!
//! ```text
//!   template ─► from_template ─► Maker ─► API      (slowly first: what fails once would fail often)
//!   pods ─► is_active, is_ready, is_available ─► first_to_go ─► Maker
//! ```

mod availability;
mod maker;
mod order;
mod template;

pub use availability::{
    available_after, is_active, is_available, is_ready, is_terminal, is_terminating, phase, ready_since,
};
pub use maker::{Maker, made_slowly};
pub use order::{Neighbours, first_to_go};
pub use template::{controller_reference, from_template};
