//! SPDY/3.1 as Kubernetes uses it: many streams on one connection, opened by the client, each with a few
//! headers.
//!
//! ```text
//!   Stream { headers, input, output }
//!      ▲ data          │ frames
//!   reading ◄── I/O ◄── writing ◄── Outbox
//! ```

mod connection;
mod frame;
mod headers;

pub(crate) use connection::Streams;
pub use connection::{Connection, Role, Stream};
pub use frame::{Frame, FrameError, HEAD, Head, LARGEST_CONTROL, reset};
pub use headers::{Headers, Packer, Unpacker};

/// The name of the protocol in upgrades.
pub const PROTOCOL: &str = "SPDY/3.1";
