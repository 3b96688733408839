//! Merge patches.
