//! Custom resources cannot shadow built-in kinds.
