//! Accepts connections, subject to simulated network faults.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::network_faults::FaultInjector;

/// Length of the kernel's accept queue.
const BACKLOG: u32 = 1024;

pub struct Acceptor {
    address: SocketAddr,
    state: AcceptorState,
    fault_injector: Option<FaultInjector>,
}

enum AcceptorState {
    Listening(TcpListener),
    /// Not listening, but the address stays reserved.
    Reserved(TcpSocket),
    /// The address could not be reserved.
    Unbound,
}

impl Acceptor {
    pub fn new(listener: TcpListener, fault_injector: Option<FaultInjector>) -> io::Result<Self> {
        Ok(Acceptor {
            address: listener.local_addr()?,
            state: AcceptorState::Listening(listener),
            fault_injector,
        })
    }

    /// Accepts the next connection. Cancel safe: only connections that a simulated fault drops are lost.
    pub async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            let Some(fault_injector) = &self.fault_injector else {
                return match &self.state {
                    AcceptorState::Listening(listener) => listener.accept().await,
                    _ => Err(io::ErrorKind::NotConnected.into()),
                };
            };
            let faults = fault_injector.now();
            match (&self.state, faults.is_down) {
                (AcceptorState::Listening(_) | AcceptorState::Unbound, true) => {
                    self.state = AcceptorState::Unbound;
                    self.state = AcceptorState::Reserved(reserve(self.address)?);
                }
                (AcceptorState::Reserved(_), true) => fault_injector.until(|faults| !faults.is_down).await,
                (AcceptorState::Reserved(_) | AcceptorState::Unbound, false) => {
                    let closed = match std::mem::replace(&mut self.state, AcceptorState::Unbound) {
                        AcceptorState::Reserved(closed) => closed,
                        _ => reserve(self.address)?,
                    };
                    self.state = AcceptorState::Listening(closed.listen(BACKLOG)?);
                }
                // The kernel queues new connections meanwhile.
                (AcceptorState::Listening(_), false) if faults.is_partitioned => {
                    fault_injector.until(|faults| !faults.is_partitioned || faults.is_down).await;
                }
                (AcceptorState::Listening(listener), false) => tokio::select! {
                    biased;
                    () = fault_injector.until(|faults| faults.is_partitioned || faults.is_down) => {}
                    accepted = listener.accept() => {
                        let (stream, address) = accepted?;
                        if !fault_injector.should_drop() {
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
