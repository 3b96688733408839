//! Reasons for a missing tunnel.

use std::fmt;

use atoll_client::BoxError;

#[derive(Debug)]
pub enum TunnelError {
    /// The control plane cannot be reached, or the connection broke.
    Broken(BoxError),
    /// The control plane responded to the request for the tunnel with this status code and message.
    Refused(u16, String),
    /// The response was not received in time.
    Slow,
}

impl fmt::Display for TunnelError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TunnelError::Broken(error) => write!(out, "{error}"),
            TunnelError::Refused(code, message) => write!(out, "{code}: {message}"),
            TunnelError::Slow => out.write_str("the control plane does not respond"),
        }
    }
}

impl std::error::Error for TunnelError {}

impl From<BoxError> for TunnelError {
    fn from(error: BoxError) -> Self {
        TunnelError::Broken(error)
    }
}
