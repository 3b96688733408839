//! What is carried away: one program, an image of it for container runtimes, and checksums of both.
//!
//! ```text
//!                ┌─ elf: which processor, which loader
//!   program ─────┼─ libraries: the loader says which libraries it takes, and from where
//!                └─ image: program, loader and libraries in a layer, described as OCI and Docker want it
//!                     └─ tar, digest: the bytes
//!   distribution: all of it, in a directory
//! ```
//!
//! The same program and libraries give the same bytes: there are no times in the archives, and their order is fixed.

pub mod digest;
pub mod distribution;
pub mod elf;
mod error;
pub mod image;
pub mod libraries;
pub mod tar;

pub use error::Error;
