//! Rules for metadata.
