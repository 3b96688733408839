//! Typed views of objects: the fields of a kind by method, so that each name is spelled once.
//!
//! ```text
//! Value ─ PodView::of ─▶ PodView ─┬─ spec ──▶ PodSpecView ─▶ ContainerView, VolumeView
//!                                 ├─ condition ─▶ ConditionView
//!                                 └─ container_statuses ─▶ ContainerStatusView
//! ```
//!
//! A view is a reference: creating one is free, nothing is parsed or copied, and absent fields and fields of
//! the wrong type read as unset. Empty texts count as unset, as in Go. Where upstream has a default, the
//! method says so. Objects are changed as JSON.

mod condition;
mod node;
mod pod;
mod taint;

pub use condition::{ConditionView, condition, conditions};
pub use node::NodeView;
pub use pod::{ContainerStatusView, ContainerView, PodSpecView, PodView, VolumeView};
pub use taint::{TaintView, TolerationIndex, TolerationView};

use serde_json::Value;

/// Defines a view with `of` and `json`.
#[macro_export]
macro_rules! view {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name<'a>(&'a ::serde_json::Value);

        impl<'a> $name<'a> {
            pub fn of(value: &'a ::serde_json::Value) -> Self {
                $name(value)
            }

            /// Returns the JSON of the view.
            pub fn json(self) -> &'a ::serde_json::Value {
                self.0
            }
        }
    };
}

/// Returns a text; `None` if it is unset or empty.
pub fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// Returns the items of a list; none if it is unset.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
