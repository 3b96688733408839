//! WebSocket (RFC 6455) as Kubernetes uses it: messages that start with a channel number, or a tunnel for
//! SPDY.
//!
//! ```text
//!   channels ─┐            ┌─ frame: bytes ↔ frames
//!   tunnel  ──┴─ reader ───┴─ handshake: headers ↔ protocol
//! ```

pub mod channels;
mod frame;
mod handshake;
mod reader;
mod tunnel;

pub use frame::{FrameError, Head, Message, Opcode, Role, mask};
pub use handshake::{Handshake, accept_key, is_websocket, offered};
pub use reader::{Event, Reader};
pub use tunnel::tunnel;

/// Normal closure.
pub const CLOSE_NORMAL: u16 = 1000;
/// Protocol error of the peer.
pub const CLOSE_PROTOCOL_ERROR: u16 = 1002;
