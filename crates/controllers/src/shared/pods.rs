//! Helpers for controllers of pods: states, deletion order, creation and deletion.
//!
//! ```text
//!   template ─► from_template ─► PodControl ─► API      (slow start: a failure is likely to repeat)
//!   pods ─► is_active, is_ready, is_available ─► sort_for_deletion ─► PodControl
//! ```

mod availability;
mod deletion_order;
mod pod_control;
mod template;

pub use availability::{
    available_after, is_active, is_available, is_ready, is_terminal, is_terminating, phase, ready_since,
};
pub use deletion_order::{RelatedPods, sort_for_deletion};
pub use pod_control::{PodControl, slow_start_batch};
pub use template::{controller_reference, from_template};
