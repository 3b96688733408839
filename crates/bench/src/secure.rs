//! TLS for the load generator that decrypts in place. The load generator shares the cores with the server
//! under test, so its own CPU usage must be small. Therefore it does not use the HTTPS client of
//! `crates/client`: parsing every response and copying every record would be a large part of what is
//! measured, and the client's own costs would be attributed to the server.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use rustls::ClientConfig;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use crate::records::Records;

/// Size of the read buffer, enough for many records.
const INCOMING: usize = 256 << 10;
/// Space before the read buffer for an incomplete record, which is at most a little more than 16 KiB.
const PARTIAL: usize = 32 << 10;

thread_local! {
    /// One buffer for all connections of a thread. Received data is processed before the next connection
    /// reads, and a shared buffer stays in the CPU cache.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; PARTIAL + INCOMING].into_boxed_slice());
}

pub struct TlsStream {
    socket: TcpStream,
    records: Records,
    cipher: String,
    /// The beginning of an incomplete record.
    held: Vec<u8>,
    outgoing: Vec<u8>,
}

impl TlsStream {
    /// Connects with TLS. `config` must be limited to TLS 1.3 and allow extraction of secrets.
    pub async fn connect(
        mut socket: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, String> {
        let mut session = UnbufferedClientConnection::new(config, name).map_err(|error| error.to_string())?;
        let (mut held, mut outgoing) = (Vec::new(), Vec::new());
        loop {
            let is_done = advance_handshake(&mut session, &mut held, &mut outgoing)?;
            socket.write_all(&outgoing).await.map_err(|error| error.to_string())?;
            outgoing.clear();
            if is_done {
                break;
            }
            if socket.read_buf(&mut held).await.map_err(|error| error.to_string())? == 0 {
                return Err("the server closed the connection".into());
            }
        }
        let suite = session.negotiated_cipher_suite();
        let cipher = suite.map_or_else(String::new, |suite| format!("{:?}", suite.suite()));
        let (secrets, _) = session.dangerous_into_kernel_connection().map_err(|error| error.to_string())?;
        Ok(TlsStream { socket, records: Records::new(secrets)?, cipher, held, outgoing })
    }

    pub fn cipher(&self) -> String {
        self.cipher.clone()
    }

    pub async fn write(&mut self, plain: &[u8]) -> Result<(), String> {
        self.outgoing.clear();
        self.records.encrypt(plain, &mut self.outgoing)?;
        self.socket.write_all(&self.outgoing).await.map_err(|error| error.to_string())
    }

    /// Reads until application data arrives and passes it to `piece`. Returns false at the end of the stream.
    pub async fn read(&mut self, mut piece: impl FnMut(&[u8])) -> Result<bool, String> {
        loop {
            let mut seen = false;
            let mut show = |bytes: &[u8]| {
                seen = true;
                piece(bytes);
            };
            if !self.receive(&mut show).await? {
                return Ok(false);
            }
            if seen {
                return Ok(true);
            }
        }
    }

    /// Reads once and passes decrypted data to `show`. Returns false if the peer closed the connection.
    async fn receive(&mut self, show: &mut impl FnMut(&[u8])) -> Result<bool, String> {
        poll_fn(|context| {
            BUFFER.with_borrow_mut(|place| {
                let mut room = ReadBuf::new(&mut place[PARTIAL..]);
                let read = ready!(Pin::new(&mut self.socket).poll_read(context, &mut room));
                let count = room.filled().len();
                Poll::Ready(match read {
                    Err(error) => Err(error.to_string()),
                    Ok(()) if count == 0 => Err("the server closed the connection".into()),
                    Ok(()) if self.held.len() > PARTIAL => Err("a record exceeds the maximum length".into()),
                    Ok(()) => {
                        let start = PARTIAL - self.held.len();
                        place[start..PARTIAL].copy_from_slice(&self.held);
                        let incoming = &mut place[start..PARTIAL + count];
                        self.records.decrypt(incoming, &mut *show).map(|opened| {
                            self.held.clear();
                            self.held.extend_from_slice(&incoming[opened.done..]);
                            !opened.is_closed
                        })
                    }
                })
            })
        })
        .await
    }
}

/// Advances the handshake with the received data and appends the data to send to `outgoing`. Returns whether
/// the handshake is complete.
fn advance_handshake(
    session: &mut UnbufferedClientConnection,
    incoming: &mut Vec<u8>,
    outgoing: &mut Vec<u8>,
) -> Result<bool, String> {
    loop {
        let UnbufferedStatus { discard, state, .. } = session.process_tls_records(incoming);
        let is_done = match state.map_err(|error| error.to_string())? {
            ConnectionState::EncodeTlsData(mut data) => {
                let start = outgoing.len();
                let mut encoded = data.encode(&mut []);
                if let Err(EncodeError::InsufficientSize(needed)) = &encoded {
                    outgoing.resize(start + needed.required_size, 0);
                    encoded = data.encode(&mut outgoing[start..]);
                }
                let written = encoded.map_err(|error| error.to_string())?;
                outgoing.truncate(start + written);
                None
            }
            ConnectionState::TransmitTlsData(data) => {
                data.done();
                None
            }
            ConnectionState::BlockedHandshake => Some(false),
            ConnectionState::WriteTraffic(_) => Some(true),
            _ => return Err("the TLS handshake reached an unexpected state".into()),
        };
        incoming.drain(..discard);
        if let Some(is_done) = is_done {
            return Ok(is_done);
        }
    }
}
