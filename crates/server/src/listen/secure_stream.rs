//! TLS over a connection, after the handshake. Data is encrypted at once and sent when enough of it is
//! buffered or on flush: long responses are written in many small parts, and each system call would wake
//! their reader.

use std::io::{self, BufRead, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::wrapper::ClientStream;

/// Maximum size of the buffer of encrypted data.
const MAX_BUFFERED: usize = 256 << 10;

pub struct SecureStream {
    stream: ClientStream,
    session: ServerConnection,
    /// No more data will arrive.
    ended: bool,
}

impl From<TlsStream<ClientStream>> for SecureStream {
    fn from(stream: TlsStream<ClientStream>) -> Self {
        let (stream, mut session) = stream.into_inner();
        session.set_buffer_limit(Some(MAX_BUFFERED));
        SecureStream { stream, session, ended: false }
    }
}

impl SecureStream {
    pub fn session(&self) -> &ServerConnection {
        &self.session
    }

    /// Reads from the connection; `false` at its end.
    fn receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let read = self.session.read_tls(&mut Blocking { stream: &mut self.stream, context });
        let bytes = ready!(or_pending(read))?;
        if let Err(error) = self.session.process_new_packets() {
            // Try to send the TLS alert.
            let _ = self.send(context);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(bytes > 0))
    }

    /// Copies decrypted data into the buffer, which is not cleared before: that would cost more than most
    /// requests have data. Copies nothing at the end of the session.
    fn take_received(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        let mut reader = self.session.reader();
        let before = buffer.filled().len();
        while buffer.remaining() > 0 {
            let received = match reader.fill_buf() {
                Ok([]) => break,
                Ok(received) => received,
                Err(_) if buffer.filled().len() > before => break,
                Err(error) => return Err(error),
            };
            let length = received.len().min(buffer.remaining());
            buffer.put_slice(&received[..length]);
            reader.consume(length);
        }
        Ok(())
    }

    /// Sends all buffered data.
    fn send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            let written = self.session.write_tls(&mut Blocking { stream: &mut self.stream, context });
            if ready!(or_pending(written))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for SecureStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.take_received(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.ended => {}
                taken => return Poll::Ready(taken),
            }
            self.ended = !ready!(self.receive(context))?;
        }
    }
}

impl AsyncWrite for SecureStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.iter().all(|slice| slice.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        loop {
            let taken = self.session.writer().write_vectored(slices)?;
            if taken > 0 {
                return Poll::Ready(Ok(taken));
            }
            ready!(self.send(context))?;
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.send(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // This is sent only once.
        self.session.send_close_notify();
        ready!(self.send(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Adapts a connection to blocking I/O: `Pending` becomes `WouldBlock`.
struct Blocking<'a, 'c> {
    stream: &'a mut ClientStream,
    context: &'a mut Context<'c>,
}

impl Read for Blocking<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(bytes);
        match Pin::new(&mut *self.stream).poll_read(self.context, &mut buffer) {
            Poll::Ready(read) => read.map(|()| buffer.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for Blocking<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[io::IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match Pin::new(&mut *self.stream).poll_write_vectored(self.context, slices) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn or_pending<T>(outcome: io::Result<T>) -> Poll<io::Result<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        outcome => Poll::Ready(outcome),
    }
}
