//! A connection with simulated network faults: during a partition both directions stall, and a lost
//! connection ends without a TLS close.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::weather::{Exposure, Weather};

pub struct Line {
    /// `None` only while it is dropped.
    stream: Option<TcpStream>,
    exposed: Option<Box<Exposed>>,
}

struct Exposed {
    exposure: Arc<Exposure>,
    // Separate, because reader and writer may be different tasks.
    reading: Passage,
    writing: Passage,
}

/// Waits for the faults to change.
struct Passage {
    weather: Weather,
    changed: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl Line {
    pub fn new(stream: TcpStream, exposure: Option<Arc<Exposure>>) -> Self {
        let exposed = exposure.map(|exposure| {
            let passage = || Passage { weather: exposure.weather.clone(), changed: None };
            Box::new(Exposed { reading: passage(), writing: passage(), exposure: exposure.clone() })
        });
        Line { stream: Some(stream), exposed }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    pub async fn peek(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.stream {
            Some(stream) => stream.peek(buffer).await,
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn may_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.exposed {
            None => Poll::Ready(Ok(())),
            Some(exposed) => exposed.reading.poll(&exposed.exposure, context),
        }
    }

    fn may_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.exposed {
            None => Poll::Ready(Ok(())),
            Some(exposed) => exposed.writing.poll(&exposed.exposure, context),
        }
    }
}

impl Passage {
    /// Ready while data passes. The task is woken when the faults change.
    fn poll(&mut self, exposure: &Exposure, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let conditions = self.weather.now();
            if exposure.is_reset() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            let changed = self.changed.get_or_insert_with(|| {
                let (weather, seen) = (self.weather.clone(), conditions.clone());
                Box::pin(async move { weather.until(|now| !Arc::ptr_eq(now, &seen)).await })
            });
            match changed.as_mut().poll(context) {
                Poll::Ready(()) => self.changed = None,
                Poll::Pending if conditions.is_cut => return Poll::Pending,
                Poll::Pending => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let (Some(stream), Some(exposed)) = (self.stream.take(), &self.exposed) else { return };
        if exposed.exposure.is_reset() {
            // Closing sends a reset then.
            let _ = stream.set_zero_linger();
            return;
        }
        let weather = exposed.exposure.weather.clone();
        if weather.now().is_cut
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // A partition delays the end of a connection, too.
            runtime.spawn(async move {
                weather.until(|conditions| !conditions.is_cut).await;
                drop(stream);
            });
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.may_read(context))?;
        self.stream()?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Line {
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
