//! The in-process client: the same handler that answers the socket, without the socket.

use std::sync::{Arc, Weak};

use atoll_authn::{MASTERS, User};
use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};

use crate::Server;
use crate::chain::{Peer, handle};

/// Requests in the name of a part of the control plane.
pub struct Local {
    /// Not an owner: a controller must not keep a stopped server alive.
    server: Weak<Server>,
    peer: Peer,
}

impl Local {
    /// `user` is what the log and, later, the audit show.
    pub fn new(server: &Arc<Server>, user: &str) -> Self {
        let user = User::authenticated(user.into(), String::new(), vec![MASTERS.into()]);
        Local { server: Arc::downgrade(server), peer: Peer { certificate: Some(Arc::new(user)) } }
    }
}

impl Transport for Local {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async move {
            let server = self.server.upgrade().ok_or("the server has stopped")?;
            let response = handle(&server, &self.peer, request.map(Full::new)).await;
            Ok(response.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
        })
    }
}
