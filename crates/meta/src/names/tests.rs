//! Tables of good and bad names.
