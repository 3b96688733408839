//! TLS for the load generator, with as few copies as rustls allows: what comes in is decrypted where it lies. The load
//! generator shares the cores with the server that it measures, so what it saves is not measured as the server's.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use rustls::ClientConfig;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{AppDataRecord, ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// Room for what comes in: many records at once.
const INCOMING: usize = 256 << 10;
/// Room before it for what a connection holds back: less than a record, which is 16 KiB and a little.
const HELD: usize = 32 << 10;
/// Room that a record needs beside what it carries.
const RECORD: usize = 256;

thread_local! {
    /// The connections of a thread take turns, and what has come for one is done with before the next has its turn. Were
    /// there a place for each, what comes in would always be written where the core has not been for long.
    static PLACE: RefCell<Box<[u8]>> = RefCell::new(vec![0; HELD + INCOMING].into_boxed_slice());
}

pub struct Secure {
    socket: TcpStream,
    session: UnbufferedClientConnection,
    /// The beginning of a record whose rest is still to come.
    held: Vec<u8>,
    outgoing: Vec<u8>,
}

impl Secure {
    pub async fn connect(
        socket: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, String> {
        let session = UnbufferedClientConnection::new(config, name).map_err(|error| error.to_string())?;
        let mut secure = Secure { socket, session, held: Vec::new(), outgoing: Vec::new() };
        let mut step = secure.process(&mut [], &mut |_| ())?;
        secure.transmit().await?;
        while step == Step::Handshake {
            step = secure.receive(&mut |_| ()).await?;
        }
        Ok(secure)
    }

    pub fn cipher(&self) -> String {
        let suite = self.session.negotiated_cipher_suite();
        suite.map_or_else(String::new, |suite| format!("{:?}", suite.suite()))
    }

    pub async fn write(&mut self, plain: &[u8]) -> Result<(), String> {
        let UnbufferedStatus { discard, state, .. } = self.session.process_tls_records(&mut self.held);
        match state.map_err(|error| error.to_string())? {
            ConnectionState::WriteTraffic(mut traffic) => {
                self.outgoing.resize(plain.len() + RECORD * (1 + plain.len() / (16 << 10)), 0);
                let mut written = traffic.encrypt(plain, &mut self.outgoing);
                if let Err(EncryptError::InsufficientSize(needed)) = &written {
                    self.outgoing.resize(needed.required_size, 0);
                    written = traffic.encrypt(plain, &mut self.outgoing);
                }
                let written = written.map_err(|error| error.to_string())?;
                self.outgoing.truncate(written);
            }
            _ => return Err("the server speaks out of turn".into()),
        }
        self.held.drain(..discard);
        self.transmit().await
    }

    /// Waits for what comes next and shows it to `piece`, record by record; false at the end.
    pub async fn read(&mut self, mut piece: impl FnMut(&[u8])) -> Result<bool, String> {
        loop {
            let mut seen = false;
            let mut show = |bytes: &[u8]| {
                seen = true;
                piece(bytes);
            };
            match self.receive(&mut show).await? {
                Step::Closed => return Ok(false),
                _ if seen => return Ok(true),
                _ => {}
            }
        }
    }

    /// Waits until something has come, and does with it what the session asks for.
    async fn receive(&mut self, show: &mut impl FnMut(&[u8])) -> Result<Step, String> {
        let received = poll_fn(|context| {
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
                        self.process(&mut place[start..HELD + count], show)
                    }
                })
            })
        });
        let step = received.await?;
        self.transmit().await?;
        Ok(step)
    }

    /// Does what the session asks for, until all that has come is done with. What is to be sent waits in `outgoing`.
    fn process(&mut self, incoming: &mut [u8], show: &mut impl FnMut(&[u8])) -> Result<Step, String> {
        let mut done = 0;
        loop {
            let UnbufferedStatus { discard, state, .. } =
                self.session.process_tls_records(&mut incoming[done..]);
            done += discard;
            let step = match state.map_err(|error| error.to_string())? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let AppDataRecord { discard, payload, .. } =
                            record.map_err(|error| error.to_string())?;
                        done += discard;
                        show(payload);
                    }
                    continue;
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    let start = self.outgoing.len();
                    let mut encoded = data.encode(&mut []);
                    if let Err(EncodeError::InsufficientSize(needed)) = &encoded {
                        self.outgoing.resize(start + needed.required_size, 0);
                        encoded = data.encode(&mut self.outgoing[start..]);
                    }
                    let written = encoded.map_err(|error| error.to_string())?;
                    self.outgoing.truncate(start + written);
                    continue;
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    continue;
                }
                ConnectionState::BlockedHandshake => Step::Handshake,
                ConnectionState::WriteTraffic(_) => Step::Ready,
                ConnectionState::PeerClosed | ConnectionState::Closed => Step::Closed,
                _ => return Err("TLS came to a state that is not known here".into()),
            };
            self.held.clear();
            self.held.extend_from_slice(&incoming[done..]);
            return Ok(step);
        }
    }

    async fn transmit(&mut self) -> Result<(), String> {
        if !self.outgoing.is_empty() {
            self.socket.write_all(&self.outgoing).await.map_err(|error| error.to_string())?;
            self.outgoing.clear();
        }
        Ok(())
    }
}

/// What is to be done when all that has come is done with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// To wait for more of the handshake.
    Handshake,
    /// To send, or to wait for what the server sends.
    Ready,
    Closed,
}
