//! Parts that controllers of several domains use.

pub mod conditions;
pub mod controller_refs;
pub mod deletable_resources;
pub mod enqueue;
pub mod go_print;
pub mod pods;
pub mod selectors;
pub mod views;
