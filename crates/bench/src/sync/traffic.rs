//! A TCP proxy between the control plane and the clusters that counts bytes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::error::{BenchError, BenchResult};

/// Buffer size, larger than a TLS record.
const PIECE: usize = 32 << 10;

pub struct Traffic {
    runtime: Runtime,
    bytes: Arc<AtomicU64>,
}

impl Traffic {
    pub fn new() -> BenchResult<Traffic> {
        // A thread of its own, so that the proxy does not wait for the benchmark.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| BenchError::Machine(error.to_string()))?;
        Ok(Traffic { runtime, bytes: Arc::default() })
    }

    /// Returns the number of bytes in both directions.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Opens a port that forwards to `server` and returns its address.
    pub fn proxy(&self, server: SocketAddr) -> BenchResult<SocketAddr> {
        let failed =
            |error: std::io::Error| BenchError::Machine(format!("no free port on loopback: {error}"));
        let listener = self.runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let bytes = self.bytes.clone();
        self.runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(join(client, server, bytes.clone()));
            }
        });
        Ok(address)
    }
}

/// Forwards one connection in both directions. Errors end the connection, which both peers notice.
async fn join(client: TcpStream, server: SocketAddr, bytes: Arc<AtomicU64>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    for stream in [&client, &server] {
        let _ = stream.set_nodelay(true);
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(pass(from_client, to_server, &bytes), pass(from_server, to_client, &bytes));
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, bytes: &AtomicU64) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        bytes.fetch_add(length as u64, Ordering::Relaxed);
        if to.write_all(&piece[..length]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
