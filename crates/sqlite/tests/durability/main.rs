//! What the SQLite store does when things go wrong: power cuts, full and failing disks, killed processes,
//! directories that cannot be opened.

mod disk;
mod faults;
mod killed;
mod opening;
mod power;
