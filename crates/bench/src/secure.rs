//! TLS for the load generator, with as few copies as rustls allows: what comes in is decrypted where it lies. The load
//! generator shares the cores with the server that it measures, so what it saves is not measured as the server's.

use std::ops::Range;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{AppDataRecord, ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Room for what comes in: many records at once, and never less than one.
const INCOMING: usize = 256 << 10;
/// Room that a record needs beside what it carries.
const RECORD: usize = 256;

pub struct Secure {
    socket: TcpStream,
    session: UnbufferedClientConnection,
    incoming: Box<[u8]>,
    /// What of `incoming` has come and is not done with.
    held: Range<usize>,
    outgoing: Vec<u8>,
}

impl Secure {
    pub async fn connect(
        socket: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, String> {
        let session = UnbufferedClientConnection::new(config, name).map_err(|error| error.to_string())?;
        let incoming = vec![0; INCOMING].into_boxed_slice();
        let mut secure = Secure { socket, session, incoming, held: 0..0, outgoing: Vec::new() };
        while secure.step(&mut |_| ()).await? != Step::Ready {}
        Ok(secure)
    }

    pub fn cipher(&self) -> String {
        let suite = self.session.negotiated_cipher_suite();
        suite.map_or_else(String::new, |suite| format!("{:?}", suite.suite()))
    }

    pub async fn write(&mut self, plain: &[u8]) -> Result<(), String> {
        let UnbufferedStatus { discard, state, .. } =
            self.session.process_tls_records(&mut self.incoming[self.held.clone()]);
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
        self.discard(discard);
        self.transmit().await
    }

    /// Waits for what comes next and shows it to `piece`, record by record; false at the end.
    pub async fn read(&mut self, mut piece: impl FnMut(&[u8])) -> Result<bool, String> {
        let mut seen = false;
        loop {
            let mut show = |bytes: &[u8]| {
                seen = true;
                piece(bytes);
            };
            match self.step(&mut show).await? {
                Step::Closed => return Ok(false),
                // Whatever had come was shown; only then is there more to wait for.
                Step::Ready if seen => return Ok(true),
                Step::Ready => self.receive().await?,
                Step::On => {}
            }
        }
    }

    /// Does the next thing that the session asks for.
    async fn step(&mut self, show: &mut impl FnMut(&[u8])) -> Result<Step, String> {
        let UnbufferedStatus { mut discard, state, .. } =
            self.session.process_tls_records(&mut self.incoming[self.held.clone()]);
        let wanted = match state.map_err(|error| error.to_string())? {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    let AppDataRecord { discard: done, payload, .. } =
                        record.map_err(|error| error.to_string())?;
                    discard += done;
                    show(payload);
                }
                Wanted::Nothing(Step::On)
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
                Wanted::Nothing(Step::On)
            }
            ConnectionState::TransmitTlsData(data) => {
                data.done();
                Wanted::Transmission
            }
            ConnectionState::BlockedHandshake => Wanted::Bytes,
            ConnectionState::WriteTraffic(_) => Wanted::Nothing(Step::Ready),
            ConnectionState::PeerClosed | ConnectionState::Closed => Wanted::Nothing(Step::Closed),
            _ => return Err("TLS came to a state that is not known here".into()),
        };
        self.discard(discard);
        match wanted {
            Wanted::Nothing(step) => return Ok(step),
            Wanted::Transmission => self.transmit().await?,
            Wanted::Bytes => self.receive().await?,
        }
        Ok(Step::On)
    }

    fn discard(&mut self, done: usize) {
        self.held.start += done;
        if self.held.is_empty() {
            self.held = 0..0;
        }
    }

    async fn transmit(&mut self) -> Result<(), String> {
        self.socket.write_all(&self.outgoing).await.map_err(|error| error.to_string())?;
        self.outgoing.clear();
        Ok(())
    }

    async fn receive(&mut self) -> Result<(), String> {
        // The beginning of a record is moved to where the rest of it has room.
        if self.held.start > 0 {
            self.incoming.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
        }
        let read = self.socket.read(&mut self.incoming[self.held.end..]).await;
        match read.map_err(|error| error.to_string())? {
            0 => Err("the server closed it".into()),
            count => {
                self.held.end += count;
                Ok(())
            }
        }
    }
}

/// What came of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    On,
    /// Nothing is left to do but to send or to wait.
    Ready,
    Closed,
}

enum Wanted {
    Nothing(Step),
    Transmission,
    Bytes,
}
