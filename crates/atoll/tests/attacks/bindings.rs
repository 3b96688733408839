//! Bindings of one workspace never count for identities of another.
