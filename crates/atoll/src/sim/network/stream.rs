//! The stream of a connection with faults: during a partition both directions stall, and a lost connection
//! ends without a TLS close.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use atoll_server::listen::wrapper::WrappedStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::connection::ConnectionFaults;
use super::faults::FaultInjector;

pub struct FaultyStream {
    /// `None` only while it is dropped.
    stream: Option<TcpStream>,
    connection_faults: Arc<ConnectionFaults>,
    // Separate, because reader and writer may be different tasks.
    reading: FaultGate,
    writing: FaultGate,
}

/// Waits for the faults to change.
struct FaultGate {
    fault_injector: FaultInjector,
    changed: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl FaultyStream {
    pub fn new(stream: TcpStream, connection_faults: Arc<ConnectionFaults>) -> Self {
        let gate = || FaultGate { fault_injector: connection_faults.fault_injector.clone(), changed: None };
        FaultyStream { stream: Some(stream), reading: gate(), writing: gate(), connection_faults }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn may_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.reading.poll(&self.connection_faults, context)
    }

    fn may_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writing.poll(&self.connection_faults, context)
    }
}

impl WrappedStream for FaultyStream {
    fn poll_peek(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        match &self.stream {
            Some(stream) => stream.poll_peek(context, buffer),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl FaultGate {
    /// Ready while data passes. The task is woken when the faults change.
    fn poll(
        &mut self,
        connection_faults: &ConnectionFaults,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let current = self.fault_injector.now();
            if connection_faults.is_reset() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            let changed = self.changed.get_or_insert_with(|| {
                let (fault_injector, seen) = (self.fault_injector.clone(), current.clone());
                Box::pin(async move { fault_injector.until(|now| !Arc::ptr_eq(now, &seen)).await })
            });
            match changed.as_mut().poll(context) {
                Poll::Ready(()) => self.changed = None,
                Poll::Pending if current.is_partitioned => return Poll::Pending,
                Poll::Pending => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl Drop for FaultyStream {
    fn drop(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        if self.connection_faults.is_reset() {
            // Closing sends a reset then.
            let _ = stream.set_zero_linger();
            return;
        }
        let fault_injector = self.connection_faults.fault_injector.clone();
        if fault_injector.now().is_partitioned
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // A partition delays the end of a connection, too.
            runtime.spawn(async move {
                fault_injector.until(|faults| !faults.is_partitioned).await;
                drop(stream);
            });
        }
    }
}

impl AsyncRead for FaultyStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.may_read(context))?;
        self.stream()?.poll_read(context, buffer)
    }
}

impl AsyncWrite for FaultyStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.may_write(context))?;
        self.stream()?.poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.may_write(context))?;
        self.stream()?.poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.may_write(context))?;
        self.stream()?.poll_shutdown(context)
    }
}
