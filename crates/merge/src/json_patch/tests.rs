//! JSON patches.
