//! The body of a response of a cluster, and a stream to a cluster, charged to the memory budget of the cluster.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use atoll_client::cluster_api::ByteStream;
use atoll_client::{BoxError, ResponseBody};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::UnreadCharge;

pub struct ClusterBody {
    body: ResponseBody,
    charge: UnreadCharge,
}

impl ClusterBody {
    pub fn new(body: ResponseBody, charge: UnreadCharge) -> Self {
        ClusterBody { body, charge }
    }
}

impl Body for ClusterBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            self.charge.drained();
            return Poll::Pending;
        };
        let Some(Ok(data)) = &frame else {
            self.charge.drained();
            return Poll::Ready(frame);
        };
        let size = data.data_ref().map_or(0, Bytes::len);
        match self.charge.received(size) {
            Ok(()) => Poll::Ready(frame),
            Err(refused) => Poll::Ready(Some(Err(refused.message().into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pub struct ClusterStream {
    stream: Box<dyn ByteStream>,
    charge: UnreadCharge,
}

impl ClusterStream {
    pub fn new(stream: Box<dyn ByteStream>, charge: UnreadCharge) -> Self {
        ClusterStream { stream, charge }
    }
}

impl AsyncRead for ClusterStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) else {
            self.charge.drained();
            return Poll::Pending;
        };
        read?;
        let charged = self.charge.received(buffer.filled().len());
        Poll::Ready(charged.map_err(|refused| io::Error::other(refused.message().to_string())))
    }
}

impl AsyncWrite for ClusterStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use atoll_client::memory_limits::Budget;
    use http_body_util::{BodyExt, Full};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const UNREAD: usize = 1 << 20;

    #[tokio::test]
    async fn bodies_are_charged_while_they_are_not_read() {
        let budget = Budget::new(UNREAD + UNREAD / 2);
        let body = |text: &'static str| {
            let charge = UnreadCharge::new(budget.clone(), 0, UNREAD)?;
            let body = Full::new(Bytes::from_static(text.as_bytes()));
            Ok::<_, atoll_meta::Status>(ClusterBody::new(
                body.map_err(|never| match never {}).boxed_unsync(),
                charge,
            ))
        };
        let mut first = body("0123456789").unwrap();
        assert!(body("x").is_err(), "nothing is left");
        assert!(first.frame().await.is_some_and(|frame| frame.is_ok()));
        assert!(body("x").is_err(), "nothing is left");
        assert!(first.frame().await.is_none());
        assert!(body("x").is_ok());
        drop(first);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn streams_are_charged_while_they_are_not_read() {
        let budget = Budget::new(2 * UNREAD);
        let (mut cluster, stream) = tokio::io::duplex(64);
        let charge = UnreadCharge::new(budget.clone(), 0, UNREAD).unwrap();
        let mut stream = ClusterStream::new(Box::new(stream), charge);
        assert!(budget.used() > UNREAD);
        cluster.write_all(b"x").await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        assert!(budget.used() > UNREAD, "more may have arrived");
        let reading = tokio::spawn(async move {
            let read = stream.read(&mut [0; 8]).await.unwrap();
            (stream, read)
        });
        while budget.used() > UNREAD {
            tokio::task::yield_now().await;
        }
        cluster.write_all(b"y").await.unwrap();
        let (stream, read) = reading.await.unwrap();
        assert_eq!(read, 1);
        drop(stream);
        assert_eq!(budget.used(), 0);
    }
}
