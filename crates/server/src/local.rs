//! The in-process client: the same handler without a connection.

use std::sync::{Arc, Weak};

use atoll_authn::certificate::Holder;
use atoll_authn::{MASTERS, User};
use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};

use crate::Server;
use crate::chain::{Peer, handle};
use crate::identity::Certificate;
use crate::respond::list::Chunk;

/// The user of the control plane's controllers.
pub const CONTROLLERS: &str = "system:atoll-controllers";

/// Whether a user is a controller of this control plane. A user who is impersonated in a workspace has a home there, and
/// is not.
pub fn is_controller(user: &User) -> bool {
    user.name == CONTROLLERS && user.is_in(MASTERS) && user.home.is_none()
}

/// Sends requests on behalf of a component of the control plane.
pub struct Local {
    /// Weak, so that a controller does not keep a stopped server alive.
    server: Weak<Server>,
    peer: Peer,
    /// The user agent, which is the field manager of its writes.
    agent: HeaderValue,
}

impl Local {
    /// `user` appears in the log. Its part after the last colon is the field manager of its writes.
    pub fn new(server: &Arc<Server>, user: &str) -> Self {
        let agent = HeaderValue::from_str(user.rsplit(':').next().unwrap_or_default());
        let user = User::authenticated(user.into(), String::new(), vec![MASTERS.into()]);
        let holder = Holder { user, workspace: None, expires: i64::MAX };
        Local {
            server: Arc::downgrade(server),
            peer: Peer { certificate: Certificate::Good(Arc::new(holder)), ..Peer::default() },
            agent: agent.unwrap_or(HeaderValue::from_static("atoll")),
        }
    }
}

impl Transport for Local {
    fn send(&self, mut request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async move {
            // Most requests are handled without waiting for anything. A controller that sends thousands of them
            // in a row would otherwise keep its thread from all other tasks.
            tokio::task::coop::consume_budget().await;
            // During shutdown, the caller is about to be stopped as well, so it gets no response.
            let running = self.server.upgrade().filter(|server| !server.is_stopping());
            let Some(server) = running else { return std::future::pending().await };
            request.headers_mut().entry(USER_AGENT).or_insert_with(|| self.agent.clone());
            let response = handle(&server, &self.peer, request.map(Full::new)).await;
            Ok(response.map(|body| {
                let whole = body.map_frame(|frame| frame.map_data(Chunk::into_bytes));
                whole.map_err(Into::into).boxed_unsync()
            }))
        })
    }
}
