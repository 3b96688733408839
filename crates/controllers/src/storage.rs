//! Controllers of volumes and volume claims: `volume_binding` binds them to each other, and `protection` keeps
//! them while they are in use.

pub mod protection;
pub mod volume_binding;
