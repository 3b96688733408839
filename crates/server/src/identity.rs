//! Authentication of requests: by client certificate, by token, or anonymous. A ServiceAccount's token is
//! valid while its account and the objects that it is bound to exist, and in its own workspace only.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/authentication.go
// upstream: pkg/serviceaccount/claims.go
// upstream: pkg/serviceaccount/legacy.go

use std::sync::Arc;

use atoll_authn::certificate::Holder;
use atoll_authn::service_account::{Claims, Reference};
use atoll_authn::{Unauthorized, User, bearer_token};
use atoll_meta::{json, object};
use atoll_registry::ObjectRef;
use atoll_registry::bootstrap::ROOT;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::Value;

use crate::Server;

/// Seconds after its deletionTimestamp during which an object still counts as existing, so that it can clean
/// up.
const LEEWAY: i64 = 60;
const INVALIDATED: &str = "service account token has been invalidated";
/// Label of a Secret whose legacy token is invalid.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The client certificate of a connection.
#[derive(Clone, Debug, Default)]
pub enum Certificate {
    /// No certificate, or one without a user name.
    #[default]
    None,
    /// Signed by another CA, or malformed.
    Bad,
    Good(Arc<Holder>),
}

impl Certificate {
    /// Returns the same certificate without expiry, for as long as its connection lasts.
    pub(crate) fn without_expiry(self) -> Self {
        match self {
            Certificate::Good(holder) => {
                let Holder { user, workspace, .. } = &*holder;
                let (user, workspace) = (user.clone(), workspace.clone());
                Certificate::Good(Arc::new(Holder { user, workspace, expires: i64::MAX }))
            }
            other => other,
        }
    }
}

/// An authenticated user.
#[derive(Debug)]
pub struct AuthenticatedUser {
    pub user: User,
    /// The requested audiences that the token is valid for.
    pub audiences: Vec<String>,
}

impl Server {
    /// Authenticates a client certificate or an `Authorization` header for a request in `workspace`, if that
    /// exists.
    pub fn authenticate(
        &self,
        certificate: &Certificate,
        header: Option<&str>,
        workspace: Option<&str>,
    ) -> Result<AuthenticatedUser, Unauthorized> {
        let mut problem = None;
        match certificate {
            Certificate::None => {}
            Certificate::Bad => problem = Some(Unauthorized::Unknown),
            Certificate::Good(holder) => {
                let is_valid_here = holder.workspace.is_none() || holder.workspace.as_deref() == workspace;
                if is_valid_here && self.registry.clock.seconds() <= holder.expires {
                    let user = match &holder.workspace {
                        Some(home) => holder.user.clone().of_workspace(home),
                        None => holder.user.clone(),
                    };
                    return Ok(AuthenticatedUser { user, audiences: Vec::new() });
                }
                problem = Some(Unauthorized::Unknown);
            }
        }
        match (header.and_then(bearer_token), problem) {
            (Some(token), _) => self.authenticate_token(token, workspace, None),
            (None, Some(problem)) => Err(problem),
            (None, None) => Ok(AuthenticatedUser { user: User::anonymous(), audiences: Vec::new() }),
        }
    }

    /// Returns the path of the workspace that a request without one is about, if that is not root: the
    /// workspace of the ServiceAccount whose token it has, because clients in Pods know only a host and a port.
    /// The token is verified afterwards, in that workspace. A client certificate takes precedence over a token.
    pub(crate) fn workspace_of_token(
        &self,
        certificate: &Certificate,
        headers: &HeaderMap,
    ) -> Option<String> {
        if matches!(certificate, Certificate::Good(_)) {
            return None;
        }
        let token = bearer_token(headers.get(AUTHORIZATION)?.to_str().ok()?)?;
        let id = self.tokens.as_ref()?.claimed_workspace(token)?;
        let path = self.registry.placements.workspaces.path(ROOT, &id).filter(|path| !path.is_empty())?;
        Some(format!("{ROOT}:{path}"))
    }

    /// Returns the anonymous user, if this API is among `audiences`.
    pub fn authenticate_anonymous(
        &self,
        workspace: &str,
        audiences: Option<&[String]>,
    ) -> Result<AuthenticatedUser, Unauthorized> {
        let audiences = self.accepted_audiences(workspace, audiences)?;
        Ok(AuthenticatedUser { user: User::anonymous(), audiences })
    }

    /// Returns the part of `audiences` that a credential without audiences is valid for: this API. Empty for
    /// requests, which ask for no audiences.
    fn accepted_audiences(
        &self,
        workspace: &str,
        audiences: Option<&[String]>,
    ) -> Result<Vec<String>, Unauthorized> {
        let Some(audiences) = audiences else { return Ok(Vec::new()) };
        let issuer = self.issuer(workspace);
        match audiences.contains(&issuer) {
            true => Ok(vec![issuer]),
            false => Err(Unauthorized::Unknown),
        }
    }

    /// Authenticates a token for one of `audiences`, or for this API.
    pub fn authenticate_token(
        &self,
        token: &str,
        workspace: Option<&str>,
        audiences: Option<&[String]>,
    ) -> Result<AuthenticatedUser, Unauthorized> {
        if let Some(user) = self.authenticator.tokens.user(token) {
            let audiences = self.accepted_audiences(workspace.unwrap_or_default(), audiences)?;
            return Ok(AuthenticatedUser { user: user.clone(), audiences });
        }
        let (Some(tokens), Some(workspace)) = (&self.tokens, workspace) else {
            return Err(Unauthorized::Unknown);
        };
        let mut claims = tokens.verify(token, workspace, audiences, self.registry.clock.seconds())?;
        match claims.is_legacy {
            true => self.check_legacy(&claims, token, workspace)?,
            false => self.check_bound(&claims, workspace)?,
        }
        let audiences = std::mem::take(&mut claims.audiences);
        Ok(AuthenticatedUser { user: claims.user().of_workspace(workspace), audiences })
    }

    /// Returns the token issuer of a workspace.
    pub fn issuer(&self, workspace: &str) -> String {
        self.tokens.as_ref().map(|tokens| tokens.issuer(workspace)).unwrap_or_default()
    }

    /// Returns the metadata of an object that a token refers to.
    fn referenced_metadata(
        &self,
        workspace: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Value, Unauthorized> {
        let found = self.find(workspace, resource, namespace, name)?;
        let metadata = json::metadata_of(&found).unwrap_or(b"{}");
        json::parse(metadata).map(|parsed| parsed.value).map_err(|_| Unauthorized::Unknown)
    }

    fn find(
        &self,
        workspace: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<bytes::Bytes, Unauthorized> {
        let row = self.registry.catalog.stored("", resource).ok_or(Unauthorized::Unknown)?;
        let found = self.registry.get(row, &ObjectRef { workspace, namespace, name });
        found.map(|object| object.json()).map_err(|status| Unauthorized::because(status.message()))
    }

    fn check_bound(&self, claims: &Claims, workspace: &str) -> Result<(), Unauthorized> {
        let (namespace, account) = (claims.namespace.as_str(), &claims.account);
        let metadata = self.referenced_metadata(workspace, "serviceaccounts", namespace, &account.name)?;
        if metadata["uid"] != account.uid.as_str() {
            let uid = metadata["uid"].as_str().unwrap_or_default();
            let text = format!("service account UID ({uid}) does not match claim ({})", account.uid);
            return Err(Unauthorized::because(text));
        }
        if self.was_deleted(&metadata) {
            let text = format!("service account {namespace}/{} has been deleted", account.name);
            return Err(Unauthorized::because(text));
        }
        let bound = |kind: &str, resource: &str, namespace: &str, claim: &Reference| {
            let metadata = self.referenced_metadata(workspace, resource, namespace, &claim.name);
            let metadata = metadata.map_err(|_| Unauthorized::because(INVALIDATED))?;
            if metadata["uid"] != claim.uid.as_str() {
                let uid = metadata["uid"].as_str().unwrap_or_default();
                let shown = if kind == "secret" { "secret UID" } else { &format!("{kind} UID") };
                return Err(Unauthorized::because(format!(
                    "{shown} ({uid}) does not match service account {kind} ref claim ({})",
                    claim.uid
                )));
            }
            match self.was_deleted(&metadata) {
                true => Err(Unauthorized::because(INVALIDATED)),
                false => Ok(()),
            }
        };
        if let Some(secret) = &claims.secret {
            bound("secret", "secrets", namespace, secret)?;
        }
        match (&claims.pod, &claims.node) {
            // A Pod's token also names the Pod's node, which may have been deleted.
            (Some(pod), _) => bound("pod", "pods", namespace, pod),
            (None, Some(node)) => bound("node", "nodes", "", node),
            (None, None) => Ok(()),
        }
    }

    fn was_deleted(&self, metadata: &Value) -> bool {
        let since =
            metadata["deletionTimestamp"].as_str().and_then(|text| atoll_meta::time::parse(text).ok());
        since.is_some_and(|since| since.seconds < self.registry.clock.seconds() - LEEWAY)
    }

    /// Checks that the Secret of a legacy token still contains it and that its account exists.
    fn check_legacy(&self, claims: &Claims, token: &str, workspace: &str) -> Result<(), Unauthorized> {
        let (namespace, account) = (claims.namespace.as_str(), &claims.account);
        let name = claims.secret.as_ref().map_or("", |secret| secret.name.as_str());
        let invalidated = || Unauthorized::because("Token has been invalidated");
        let secret = self.find(workspace, "secrets", namespace, name).map_err(|_| invalidated())?;
        let secret = json::parse(&secret).map_err(|_| invalidated())?.value;
        if object::is_being_deleted(&secret) {
            return Err(invalidated());
        }
        let stored = secret["data"]["token"].as_str().unwrap_or_default();
        if !self.matches_token(stored, token) {
            return Err(Unauthorized::because("Token does not match server's copy"));
        }
        let metadata = self.referenced_metadata(workspace, "serviceaccounts", namespace, &account.name)?;
        if !metadata["deletionTimestamp"].is_null() {
            let text = format!("ServiceAccount {namespace}/{} has been deleted", account.name);
            return Err(Unauthorized::because(text));
        }
        if metadata["uid"] != account.uid.as_str() {
            let uid = metadata["uid"].as_str().unwrap_or_default();
            let text = format!("ServiceAccount UID ({uid}) does not match claim ({})", account.uid);
            return Err(Unauthorized::because(text));
        }
        if secret["metadata"]["labels"][INVALID_SINCE].as_str().is_some_and(|since| !since.is_empty()) {
            return Err(Unauthorized::because(format!(
                "the token in secret {namespace}/{name} for service account {namespace}/{} has been marked invalid. Use \
                 tokens from the TokenRequest API or manually created secret-based tokens, or remove the \
                 '{INVALID_SINCE}' label from the secret to temporarily allow use of this token",
                account.name
            )));
        }
        Ok(())
    }

    /// Compares base64 text with a token in constant time.
    fn matches_token(&self, stored: &str, token: &str) -> bool {
        use base64::Engine;
        let stored = base64::engine::general_purpose::STANDARD.decode(stored).unwrap_or_default();
        aws_lc_rs::constant_time::verify_slices_are_equal(&stored, token.as_bytes()).is_ok()
    }
}
