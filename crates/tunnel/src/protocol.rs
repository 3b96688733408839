//! Constants and settings of both ends of a tunnel.

use std::time::Duration;

use http::HeaderName;

/// The protocol that an agent asks for when it opens a tunnel.
pub const PROTOCOL: &str = "atoll-tunnel/1";
/// The method of an upgrade request, which is CONNECT in the tunnel.
pub const METHOD: HeaderName = HeaderName::from_static("atoll-method");
/// The authority of all requests in a tunnel. The agent ignores it: a tunnel leads to one API server.
pub const AUTHORITY: &str = "cluster";

/// Requests that are under way in a tunnel, watches and streams included.
pub const MAX_STREAMS: u32 = 512;
/// Those of one user, so that others reach the cluster as well: less than half of the 250 that an API server allows on
/// the connection of an agent.
pub const STREAMS_OF_USER: usize = 100;
/// Size of the headers of a request or a response.
pub const MAX_HEADERS: u32 = 64 << 10;
/// Bytes that a receiver takes before it has read earlier ones: of a request, and of all together.
pub const STREAM_WINDOW: u32 = 256 << 10;
pub const CONNECTION_WINDOW: u32 = 4 << 20;
/// Memory that a full window takes at most. Each frame keeps the buffer of the connection that it was read into, which is
/// up to 32 times as large as the smallest frames that HTTP/2 does not count by themselves.
pub const UNREAD: usize = 32 * STREAM_WINDOW as usize;
/// Streams and responses in which nothing has moved for so long end.
pub const IDLE: Duration = Duration::from_secs(4 * 3600);

/// Pings that detect a dead connection.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive {
    /// Time without any data after which a ping is sent.
    pub interval: Duration,
    /// Time that the other end may take for its response.
    pub timeout: Duration,
}

impl Default for KeepAlive {
    fn default() -> Self {
        KeepAlive { interval: Duration::from_secs(20), timeout: Duration::from_secs(15) }
    }
}
