//! A response whose request is under way until the response has been sent or abandoned.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::connections::RequestInProgress;
use crate::body::Body;

pub struct TrackedBody {
    body: Body,
    _request: Option<RequestInProgress>,
}

/// Ties `request` to the response, or to the connection if that is upgraded.
pub fn track(response: Response<Body>, request: RequestInProgress) -> Response<TrackedBody> {
    let mut request = Some(request);
    if response.status() == StatusCode::SWITCHING_PROTOCOLS
        && let Some(request) = request.take()
    {
        request.upgraded();
    }
    response.map(|body| TrackedBody { body, _request: request })
}

impl HttpBody for TrackedBody {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
