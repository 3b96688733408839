//! Copies what is placed on a cluster down to it, and its status up.
