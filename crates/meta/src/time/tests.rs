//! Times and durations.
