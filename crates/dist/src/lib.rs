//! Packages the release: the program, an image of it for container runtimes, and checksums of both.
//!
//! ```text
//!                ┌─ elf: architecture and loader
//!   program ─────┼─ libraries: the libraries that the loader finds for the program
//!                └─ image: program, loader and libraries in a layer, in the OCI and Docker formats
//!                     └─ tar, digest
//!   distribution: all of them, in a directory
//! ```
//!
//! The output is reproducible: archives contain no times, and their entries have a fixed order.

pub mod digest;
pub mod distribution;
pub mod elf;
mod error;
pub mod image;
pub mod libraries;
pub mod tar;

pub use error::PackageError;
