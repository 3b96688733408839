//! Placement policies: the rules that placements are computed from.
