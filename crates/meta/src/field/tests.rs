//! Messages of field errors.
