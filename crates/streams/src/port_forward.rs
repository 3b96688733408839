//! Port-forward: any number of connections to ports of a Pod, multiplexed on one connection.
//!
//! ```text
//!   request ─► accept ─► PendingForwards ─► Forwards ─► Forward { port, data, error } ─► relay
//! ```
//!
//! Each has a data stream and an error stream. Clients use SPDY, SPDY in a WebSocket, or (older ones)
//! WebSocket channels, two for each port of the query.

// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/portforward/httpstream.go
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/portforward/websocket.go

use std::collections::HashMap;
use std::io;

use http::{Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::pipe::{Input, Output};
use crate::spdy::{Connection, Role, Stream};
use crate::upgrade::{self, UpgradeRefusal, refusal};
use crate::websocket::channels::{Channels, Encoding};
use crate::websocket::{Handshake, is_websocket, offered, tunnel};

pub const PROTOCOL: &str = "portforward.k8s.io";
/// Prefix of protocols that are tunneled as SPDY in a WebSocket.
pub const TUNNELED: &str = "SPDY/3.1+";
/// Suffix of all tunneled protocols.
pub const TUNNELED_SUFFIX: &str = ".k8s.io";

const TYPE: &str = "streamType";
const PORT: &str = "port";
const REQUEST: &str = "requestID";
/// Maximum number of streams that wait for their second one.
const MAX_UNPAIRED: usize = 64;
/// Buffer size between a WebSocket and the SPDY connection in it.
const TUNNEL_BUFFER: usize = 64 << 10;
/// Maximum length of a message on the error stream.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Returns the offered tunneled protocols, without the prefix.
pub fn tunneled(headers: &http::HeaderMap) -> Vec<&str> {
    let names = offered(headers).into_iter().filter_map(|name| name.strip_prefix(TUNNELED));
    if is_websocket(headers) {
        names.filter(|name| name.ends_with(TUNNELED_SUFFIX)).collect()
    } else {
        Vec::new()
    }
}

/// An accepted port-forward request.
pub struct PendingForwards {
    upgrade: OnUpgrade,
    negotiated: Negotiated,
}

enum Negotiated {
    Spdy,
    Tunnel,
    Channels(Encoding, Vec<u16>),
}

/// Accepts a port-forward request.
pub fn accept<B>(request: &mut Request<B>) -> Result<(Response<String>, PendingForwards), UpgradeRefusal> {
    let headers = request.headers();
    let (response, negotiated) = if !tunneled(headers).is_empty() {
        let tunnel = format!("{TUNNELED}{PROTOCOL}");
        (Handshake::new(request.method(), headers, &[&tunnel])?.response, Negotiated::Tunnel)
    } else if is_websocket(headers) {
        let ports = ports(request.uri().query().unwrap_or_default())
            .map_err(|problem| refusal(StatusCode::BAD_REQUEST, &problem))?;
        let known = ["v4.channel.k8s.io", "v4.base64.channel.k8s.io", ""];
        let Handshake { protocol, response } = Handshake::new(request.method(), headers, &known)?;
        let encoding = if protocol.contains("base64") { Encoding::Base64 } else { Encoding::Binary };
        (response, Negotiated::Channels(encoding, ports))
    } else {
        (upgrade::spdy(headers, &[PROTOCOL])?.1, Negotiated::Spdy)
    };
    Ok((response, PendingForwards { upgrade: hyper::upgrade::on(request), negotiated }))
}

/// Parses the ports of a query. Channel numbers are one byte, or one digit with base64.
fn ports(query: &str) -> Result<Vec<u16>, String> {
    let given = query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(name, _)| *name == PORT);
    let mut ports = Vec::new();
    for (_, list) in given {
        for text in list.replace("%2C", ",").replace("%2c", ",").split(',') {
            match text.parse::<u16>() {
                Ok(0) => return Err(format!("port {list:?} must be > 0")),
                Ok(port) if ports.len() < 100 => ports.push(port),
                _ if text.is_empty() => return Err(format!("query parameter {PORT:?} cannot be empty")),
                _ => return Err(format!("unable to parse {list:?} as a port")),
            }
        }
    }
    if ports.is_empty() { Err(format!("query parameter {PORT:?} is required")) } else { Ok(ports) }
}

impl PendingForwards {
    /// Returns the forwarded connections, once the client has switched protocols.
    pub async fn forwards(self) -> io::Result<Forwards> {
        let upgraded = TokioIo::new(self.upgrade.await.map_err(io::Error::other)?);
        let carrier = match self.negotiated {
            Negotiated::Spdy => ForwardCarrier::Spdy(Connection::new(upgraded, Role::Server), HashMap::new()),
            Negotiated::Tunnel => {
                let (inner, outer) = tokio::io::duplex(TUNNEL_BUFFER);
                tokio::spawn(tunnel(upgraded, outer));
                ForwardCarrier::Spdy(Connection::new(inner, Role::Server), HashMap::new())
            }
            Negotiated::Channels(encoding, ports) => channels(upgraded, encoding, &ports).await?,
        };
        Ok(Forwards { carrier })
    }
}

async fn channels<S>(stream: S, encoding: Encoding, ports: &[u16]) -> io::Result<ForwardCarrier>
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let reads: Vec<bool> = (0..ports.len() * 2).map(|channel| channel % 2 == 0).collect();
    let mut channels = Channels::new(stream, encoding, false, &reads);
    let mut forwards = Vec::new();
    for (index, port) in (0_u8..).zip(ports) {
        let Some(input) = channels.input(index * 2) else { continue };
        let (mut data, mut error) = (channels.output(index * 2), channels.output(index * 2 + 1));
        data.write(port.to_le_bytes().to_vec()).await?;
        error.write(port.to_le_bytes().to_vec()).await?;
        forwards.push(Forward { port: *port, input, output: data, error });
    }
    forwards.reverse();
    Ok(ForwardCarrier::Channels(channels, forwards))
}

/// The connections of a client. Dropping it closes the connection.
pub struct Forwards {
    carrier: ForwardCarrier,
}

enum ForwardCarrier {
    /// With streams that wait for their second one.
    Spdy(Connection, HashMap<String, Stream>),
    /// With forwards that were not returned yet.
    Channels(Channels, Vec<Forward>),
}

/// One connection to a port.
#[derive(Debug)]
pub struct Forward {
    pub port: u16,
    pub input: Input,
    pub output: Output,
    error: Output,
}

impl Forwards {
    /// Returns the next connection; `None` once the client is gone.
    pub async fn next(&mut self) -> Option<Forward> {
        match &mut self.carrier {
            ForwardCarrier::Channels(channels, forwards) => {
                let next = forwards.pop();
                if next.is_none() {
                    channels.closed().await;
                }
                next
            }
            ForwardCarrier::Spdy(connection, unpaired) => loop {
                let stream = connection.next().await?;
                if let Some(forward) = pair(unpaired, stream) {
                    return Some(forward);
                }
            },
        }
    }
}

/// Combines a stream with its counterpart, if that has arrived.
fn pair(unpaired: &mut HashMap<String, Stream>, stream: Stream) -> Option<Forward> {
    let port = stream.headers.get(PORT).and_then(|port| port.parse::<u16>().ok()).filter(|port| *port > 0);
    let is_data = match stream.headers.get(TYPE) {
        Some("data") => true,
        Some("error") => false,
        _ => {
            stream.output.reset();
            return None;
        }
    };
    let Some(port) = port else {
        stream.output.reset();
        return None;
    };
    let request = match stream.headers.get(REQUEST).filter(|request| !request.is_empty()) {
        Some(request) => request.to_string(),
        // Older clients open the error stream first, and the data stream right after it.
        None if is_data => stream.id.saturating_sub(2).to_string(),
        None => stream.id.to_string(),
    };
    let Some(other) = unpaired.remove(&request) else {
        if unpaired.len() < MAX_UNPAIRED {
            unpaired.insert(request, stream);
        } else {
            stream.output.reset();
        }
        return None;
    };
    let (data, error) = if is_data { (stream, other) } else { (other, stream) };
    if data.headers.get(TYPE) != Some("data") || error.headers.get(TYPE) != Some("error") {
        data.output.reset();
        error.output.reset();
        return None;
    }
    Some(Forward { port, input: data.input, output: data.output, error: error.output })
}

impl Forward {
    /// Copies data between the client and `stream` until `stream` ends or the client is gone.
    pub async fn relay<S: AsyncRead + AsyncWrite>(self, stream: S) {
        let Forward { mut input, mut output, error, .. } = self;
        let (mut reader, mut writer) = tokio::io::split(stream);
        let inwards = async {
            let copied = input.copy_to(&mut writer).await;
            // The other direction may continue.
            let _ = writer.shutdown().await;
            if copied.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        let is_abandoned = tokio::select! {
            sent = output.copy_from(&mut reader) => sent.is_err(),
            () = inwards => true,
        };
        match is_abandoned {
            true => output.reset(),
            false => output.close(),
        }
        error.close();
    }

    /// Reports an error to the client.
    pub async fn fail(mut self, message: &str) {
        let end = message.floor_char_boundary(MAX_MESSAGE_BYTES);
        let _ = self.error.write(message[..end].to_string()).await;
        self.error.close();
        self.output.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_parsed_from_the_query() {
        let cases = [
            ("port=80", Ok(vec![80])),
            ("port=80&x=y&port=443%2C8080", Ok(vec![80, 443, 8080])),
            ("", Err("query parameter \"port\" is required")),
            ("port=", Err("query parameter \"port\" cannot be empty")),
            ("port=0", Err("port \"0\" must be > 0")),
            ("port=70000", Err("unable to parse \"70000\" as a port")),
            ("port=a,1", Err("unable to parse \"a,1\" as a port")),
        ];
        for (query, expected) in cases {
            assert_eq!(ports(query), expected.map_err(String::from), "{query}");
        }
    }
}
