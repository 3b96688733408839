//! A listener with faults: it refuses, delays or drops connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use atoll_client::BoxFuture;
use atoll_server::listen::wrapper::{ConnectionWrapper, ListenerWrapper, WrappedStream};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::connection::ConnectionFaults;
use super::faults::FaultInjector;
use super::stream::FaultyStream;

/// Length of the kernel's accept queue.
const BACKLOG: u32 = 1024;

/// Accepts connections, subject to network faults.
pub struct FaultyListener {
    address: SocketAddr,
    state: ListenerState,
    fault_injector: FaultInjector,
}

enum ListenerState {
    Listening(TcpListener),
    /// Not listening, but the address stays reserved.
    Reserved(TcpSocket),
    /// The address could not be reserved.
    Unbound,
}

impl FaultyListener {
    pub fn new(listener: TcpListener, fault_injector: FaultInjector) -> io::Result<Self> {
        let address = listener.local_addr()?;
        Ok(FaultyListener { address, state: ListenerState::Listening(listener), fault_injector })
    }

    async fn accept_next(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            let fault_injector = &self.fault_injector;
            let faults = fault_injector.now();
            match (&self.state, faults.is_down) {
                (ListenerState::Listening(_) | ListenerState::Unbound, true) => {
                    self.state = ListenerState::Unbound;
                    self.state = ListenerState::Reserved(reserve(self.address)?);
                }
                (ListenerState::Reserved(_), true) => fault_injector.until(|faults| !faults.is_down).await,
                (ListenerState::Reserved(_) | ListenerState::Unbound, false) => {
                    let closed = match std::mem::replace(&mut self.state, ListenerState::Unbound) {
                        ListenerState::Reserved(closed) => closed,
                        _ => reserve(self.address)?,
                    };
                    self.state = ListenerState::Listening(closed.listen(BACKLOG)?);
                }
                // The kernel queues new connections meanwhile.
                (ListenerState::Listening(_), false) if faults.is_partitioned => {
                    fault_injector.until(|faults| !faults.is_partitioned || faults.is_down).await;
                }
                (ListenerState::Listening(listener), false) => tokio::select! {
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

impl ListenerWrapper for FaultyListener {
    /// Cancel safe: only connections that a fault drops are lost.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(TcpStream, SocketAddr)>> {
        Box::pin(self.accept_next())
    }

    fn wrap(&self, stream: TcpStream) -> (Box<dyn WrappedStream>, Arc<dyn ConnectionWrapper>) {
        let connection_faults = ConnectionFaults::new(self.fault_injector.clone());
        (Box::new(FaultyStream::new(stream, connection_faults.clone())), connection_faults)
    }
}

/// Binds the address without listening: connections are refused.
fn reserve(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
