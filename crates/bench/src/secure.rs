//! TLS for the load generator, without copies: what comes in is decrypted where it lies. The load generator shares the cores
//! with the server that it measures, so what it saves is not measured as the server's.

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

/// Room for what comes in: many records at once.
const INCOMING: usize = 256 << 10;
/// Room before it for what a connection holds back: less than a record, which is 16 KiB and a little.
const HELD: usize = 32 << 10;

thread_local! {
    /// The connections of a thread take turns, and what has come for one is done with before the next has its turn. Were
    /// there a place for each, what comes in would always be written where the core has not been for long.
    static PLACE: RefCell<Box<[u8]>> = RefCell::new(vec![0; HELD + INCOMING].into_boxed_slice());
}

pub struct Secure {
    socket: TcpStream,
    records: Records,
    cipher: String,
    /// The beginning of a record whose rest is still to come.
    held: Vec<u8>,
    outgoing: Vec<u8>,
}

impl Secure {
    /// `config` is for TLS 1.3 alone and lets its secrets be extracted.
    pub async fn connect(
        mut socket: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, String> {
        let mut session = UnbufferedClientConnection::new(config, name).map_err(|error| error.to_string())?;
        let (mut held, mut outgoing) = (Vec::new(), Vec::new());
        loop {
            let is_done = shake_hands(&mut session, &mut held, &mut outgoing)?;
            socket.write_all(&outgoing).await.map_err(|error| error.to_string())?;
            outgoing.clear();
            if is_done {
                break;
            }
            if socket.read_buf(&mut held).await.map_err(|error| error.to_string())? == 0 {
                return Err("the server closed it".into());
            }
        }
        let suite = session.negotiated_cipher_suite();
        let cipher = suite.map_or_else(String::new, |suite| format!("{:?}", suite.suite()));
        let (secrets, _) = session.dangerous_into_kernel_connection().map_err(|error| error.to_string())?;
        Ok(Secure { socket, records: Records::new(secrets)?, cipher, held, outgoing })
    }

    pub fn cipher(&self) -> String {
        self.cipher.clone()
    }

    pub async fn write(&mut self, plain: &[u8]) -> Result<(), String> {
        self.outgoing.clear();
        self.records.seal(plain, &mut self.outgoing)?;
        self.socket.write_all(&self.outgoing).await.map_err(|error| error.to_string())
    }

    /// Waits for what comes next and shows it to `piece`, record by record; false at the end.
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

    /// Waits until something has come, and shows what it is; false if nothing more will come.
    async fn receive(&mut self, show: &mut impl FnMut(&[u8])) -> Result<bool, String> {
        poll_fn(|context| {
            PLACE.with_borrow_mut(|place| {
                let mut room = ReadBuf::new(&mut place[HELD..]);
                let read = ready!(Pin::new(&mut self.socket).poll_read(context, &mut room));
                let count = room.filled().len();
                Poll::Ready(match read {
                    Err(error) => Err(error.to_string()),
                    Ok(()) if count == 0 => Err("the server closed it".into()),
                    Ok(()) if self.held.len() > HELD => Err("a record is longer than any can be".into()),
                    Ok(()) => {
                        let start = HELD - self.held.len();
                        place[start..HELD].copy_from_slice(&self.held);
                        let incoming = &mut place[start..HELD + count];
                        self.records.open(incoming, &mut *show).map(|opened| {
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

/// Does what the session asks for, until all that has come is done with; true if that was all of the handshake. What is to be
/// sent is in `outgoing` then.
fn shake_hands(
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
            _ => return Err("TLS came to a state that is not known here".into()),
        };
        incoming.drain(..discard);
        if let Some(is_done) = is_done {
            return Ok(is_done);
        }
    }
}
