//! The body of a response: empty, bytes, a list that is serialized while it is sent, a stream, or the body of
//! another server's response, unchanged or with its links rewritten.

mod cluster_body;
mod unread_charge;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use atoll_client::BoxError;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

pub use self::cluster_body::{ClusterBody, ClusterStream};
pub use self::unread_charge::UnreadCharge;
use crate::connect::backend::RelayedBody;
use crate::connect::page::HtmlBody;
use crate::respond::list::{Chunk, ListBody};

pub enum Body {
    Full(Option<Bytes>),
    List(Box<ListBody>),
    Stream(mpsc::Receiver<Bytes>),
    /// Ends early if the backend's body ends early.
    Relayed(Box<RelayedBody>),
    Html(Box<HtmlBody>),
    Cluster(Box<ClusterBody>),
}

impl Body {
    pub fn empty() -> Self {
        Body::Full(None)
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body::Full(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Body::from(Bytes::from(bytes))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Body::from(Bytes::from(text))
    }
}

impl http_body::Body for Body {
    type Data = Chunk;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, BoxError>>> {
        let next = match self.get_mut() {
            Body::Full(bytes) => bytes.take().map(Chunk::from),
            Body::List(list) => ready!(list.poll_chunk(context)),
            Body::Stream(receiver) => ready!(receiver.poll_recv(context)).map(Chunk::from),
            Body::Relayed(relayed) => {
                let frame = ready!(Pin::new(&mut **relayed).poll_frame(context));
                return Poll::Ready(frame.map(received));
            }
            Body::Html(page) => {
                let frame = ready!(Pin::new(&mut **page).poll_frame(context));
                return Poll::Ready(frame.map(received));
            }
            Body::Cluster(body) => {
                let frame = ready!(Pin::new(&mut **body).poll_frame(context));
                return Poll::Ready(frame.map(received));
            }
        };
        Poll::Ready(next.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Full(bytes) => bytes.is_none(),
            Body::List(list) => list.is_done(),
            Body::Relayed(relayed) => relayed.is_end_stream(),
            Body::Cluster(body) => body.is_end_stream(),
            Body::Stream(_) | Body::Html(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::Relayed(relayed) => relayed.size_hint(),
            Body::Cluster(body) => body.size_hint(),
            Body::List(_) | Body::Stream(_) | Body::Html(_) => SizeHint::default(),
        }
    }
}

/// Converts a frame of another server's response.
fn received<E: Into<BoxError>>(frame: Result<Frame<Bytes>, E>) -> Result<Frame<Chunk>, BoxError> {
    frame.map(|frame| frame.map_data(Chunk::from)).map_err(Into::into)
}
