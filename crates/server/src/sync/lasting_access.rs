//! Access of requests that last for days: sync views and tunnels. Their credential and the rights of its user are
//! checked again and again, so that they end when a certificate or token expires, or a right is withdrawn.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::Server;
use crate::identity::{AuthenticatedUser, Certificate};
use crate::request::RequestInfo;
use crate::workspace::{self, Workspace};

const INTERVAL: Duration = Duration::from_secs(10);

/// A request that lasts, with its credential.
pub struct LastingAccess {
    pub server: Arc<Server>,
    pub certificate: Certificate,
    pub headers: HeaderMap,
    pub info: Arc<RequestInfo>,
}

impl LastingAccess {
    /// Resolves when the request would be refused.
    pub async fn ended(&self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Some(problem) = self.problem().await {
                return tracing::info!(
                    path = self.info.path,
                    problem,
                    "a request that lasts is not allowed any more"
                );
            }
        }
    }

    async fn problem(&self) -> Option<String> {
        let workspace = workspace::resolve(&self.server.registry, self.info.workspace.as_deref());
        let authorization = self.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let scope = workspace.as_ref().ok().and_then(Workspace::scope);
        let authenticated = self.server.authenticate(&self.certificate, authorization, scope);
        let Ok(AuthenticatedUser { user, .. }) = authenticated else {
            return Some("its credential is no longer valid".to_string());
        };
        let authorized = self.server.authorize(user, &self.headers, &self.info, &workspace).await;
        // Other errors say that the rules could not be evaluated in time.
        let refused = authorized.err().filter(|status| matches!(status.code(), 401 | 403 | 404))?;
        Some(refused.message().to_string())
    }
}
