//! Accepts connections, subject to simulated network faults.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::weather::Weather;

/// Length of the kernel's accept queue.
const BACKLOG: u32 = 1024;

pub struct Door {
    address: SocketAddr,
    state: State,
    weather: Option<Weather>,
}

enum State {
    Open(TcpListener),
    /// Not listening, but the address stays reserved.
    Closed(TcpSocket),
    /// The address could not be reserved.
    Gone,
}

impl Door {
    pub fn new(listener: TcpListener, weather: Option<Weather>) -> io::Result<Self> {
        Ok(Door { address: listener.local_addr()?, state: State::Open(listener), weather })
    }

    /// Accepts the next connection. Cancel safe: only connections that a simulated fault drops are lost.
    pub async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            let Some(weather) = &self.weather else {
                return match &self.state {
                    State::Open(listener) => listener.accept().await,
                    _ => Err(io::ErrorKind::NotConnected.into()),
                };
            };
            let conditions = weather.now();
            match (&self.state, conditions.is_down) {
                (State::Open(_) | State::Gone, true) => {
                    self.state = State::Gone;
                    self.state = State::Closed(reserve(self.address)?);
                }
                (State::Closed(_), true) => weather.until(|conditions| !conditions.is_down).await,
                (State::Closed(_) | State::Gone, false) => {
                    let closed = match std::mem::replace(&mut self.state, State::Gone) {
                        State::Closed(closed) => closed,
                        _ => reserve(self.address)?,
                    };
                    self.state = State::Open(closed.listen(BACKLOG)?);
                }
                // The kernel queues new connections meanwhile.
                (State::Open(_), false) if conditions.is_cut => {
                    weather.until(|conditions| !conditions.is_cut || conditions.is_down).await;
                }
                (State::Open(listener), false) => tokio::select! {
                    biased;
                    () = weather.until(|conditions| conditions.is_cut || conditions.is_down) => {}
                    accepted = listener.accept() => {
                        let (stream, address) = accepted?;
                        if !weather.loses() {
                            return Ok((stream, address));
                        }
                        // Dropping it now resets the connection.
                        stream.set_zero_linger()?;
                    }
                },
            }
        }
    }
}

/// Binds the address without listening: connections are refused.
fn reserve(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
