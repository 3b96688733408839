//! A malicious cluster cannot exhaust the memory of the control plane.
