//! Slow or excessive requests of one user do not lock out the others.
