//! Streaming protocols of exec, attach and port-forward between clients, API servers and kubelets.
//!
//! ```text
//!   remote_command (exec, attach)      port_forward
//!        │        └────────┐      ┌────────┘ │
//!        │ channels        │      │ streams  │ streams
//!   websocket ◄─ tunnel ─► spdy ◄─┘          │
//!        └────────── an upgraded connection ─┘
//! ```
//!
//! A session provides each of its streams as an [`Input`] or an [`Output`], whichever protocol carries it.
//! Parsers are pure and accept any bytes. Connections buffer a bounded number of bytes per stream, and a slow
//! reader blocks the sender. SPDY's flow control windows are not used, because no implementation in
//! Kubernetes uses them.

#![allow(clippy::result_large_err, reason = "a refusal is a complete response, at most one per connection")]

mod outbox;
mod pipe;
pub mod port_forward;
pub mod remote_command;
pub mod spdy;
mod upgrade;
pub mod websocket;

pub use pipe::{Input, Output};
pub use upgrade::{STREAM_PROTOCOL, UpgradeRefusal, header_values, is_upgrade};
