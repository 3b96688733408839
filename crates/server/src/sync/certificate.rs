//! Certificates of agents in pull mode: `/services/sync/CLUSTER/certificate` in the registering workspace.
//!
//! ```text
//!   join token ──┐
//!                ├─► POST {"request": PEM} ─► certificate of the agent of this Cluster, in this workspace
//!   certificate ─┘
//! ```
//!
//! The first certificate costs a join token: the token of a ServiceAccount that may do nothing else, bound to a
//! Secret. It is good for one key. An agent that was killed before it has stored its certificate sends the same
//! request again; no one else has the key. With the first use of a certificate the Secret is deleted, and the
//! token with it.

use std::sync::Arc;

use atoll_authn::request::{CertificateRequest, Terms};
use atoll_authn::{User, certificate};
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_fleet::{ClusterView, agent};
use atoll_meta::{Status, json, object};
use atoll_registry::catalog::ATOLL;
use atoll_registry::{DeleteOptions, NoAdmission, ObjectRef, Row, Update};
use bytes::Bytes;
use http::{Method, Response};
use serde_json::{Value, json};

use super::report::MANAGER;
use crate::Server;
use crate::body::Body;
use crate::respond;
use crate::workspace::Workspace;

const SUFFIX: &str = "/certificate";
/// Largest request. A certificate request with an RSA key of 8192 bits has 3 KiB.
const MAX_REQUEST: usize = 16 << 10;

/// Returns the cluster whose agent's certificates a path is about.
pub fn cluster(path: &str) -> Option<&str> {
    let view = path.strip_suffix(SUFFIX)?;
    super::cluster(view).filter(|_| !view.ends_with('/'))
}

/// Refuses an agent of another Cluster. Other users are not concerned.
pub fn check_agent(user: &User, cluster: &str, uid: &str) -> Result<(), Status> {
    match agent::cluster_of(&user.name) {
        Some(own) if own != (cluster, uid) => {
            let message = "the certificate belongs to the agent of a Cluster that was removed";
            Err(Status::forbidden(ATOLL, "clusters", cluster, message))
        }
        _ => Ok(()),
    }
}

pub async fn handle(
    server: &Arc<Server>,
    workspace: &Workspace,
    cluster: &str,
    user: &User,
    method: &Method,
    body: Bytes,
) -> Result<Response<Body>, Status> {
    if *method != Method::POST {
        return Err(Status::method_not_supported_generic());
    }
    let workspace = workspace.id()?;
    let registered = super::registered(server, workspace, cluster)?;
    let uid = object::uid(&registered);
    if ClusterView::of(&registered).mode() != "pull" {
        let message = "certificates are for agents of clusters with mode pull";
        return Err(Status::conflict(ATOLL, "clusters", cluster, message));
    }
    let request = read(&body, &agent::user(cluster, uid))?;
    let is_renewal = agent::cluster_of(&user.name).is_some();
    let join_token = JoinToken { server, workspace, cluster, uid };
    match is_renewal {
        true => check_agent(user, cluster, uid)?,
        false => join_token.check_user(user)?,
    }
    let signer = server.agents.as_ref();
    let signer = signer.ok_or_else(|| Status::service_unavailable("this server signs no certificates"))?;
    let terms = Terms {
        usages: &["digital signature", "client auth"],
        seconds: signer.seconds,
        workspace: Some(workspace),
        now: server.registry.clock.seconds(),
    };
    let signed = signer.authority.certify(&request, &terms);
    let certificate = signed.map_err(|error| Status::internal_error(error.to_string()))?;
    if !is_renewal {
        // The certificate leaves the server only if the token could be used for its key.
        let key = request.key_id().map_err(Status::bad_request)?;
        join_token.use_for(&key, &certificate).await?;
    }
    tracing::debug!(cluster, user = user.name, "issued a certificate to the agent of a cluster");
    Ok(respond::json(&json!({ "certificate": certificate })))
}

/// Reads a request for a certificate of this user, and of no other name.
fn read(body: &[u8], user: &str) -> Result<CertificateRequest, Status> {
    let bad = |what: &str| Status::bad_request(what);
    if body.len() > MAX_REQUEST {
        return Err(bad(&format!("request: it has more than {MAX_REQUEST} bytes")));
    }
    let parsed = json::parse(body).map_err(|error| Status::bad_request(error.to_string()))?;
    let text = parsed.value["request"].as_str().ok_or_else(|| bad("request: it is missing"))?;
    let request = CertificateRequest::from_pem(text.as_bytes()).map_err(Status::bad_request)?;
    let has_names = !(request.has_only_common_name()
        && request.dns_names.is_empty()
        && request.addresses.is_empty()
        && request.emails.is_empty()
        && request.uris.is_empty());
    if request.common_name != user || has_names {
        return Err(Status::bad_request(format!("request: its only name must be {user}")));
    }
    match request.is_signed() {
        true => Ok(request),
        false => Err(bad("request: it is not signed with its key")),
    }
}

/// The join token of a cluster's agent.
struct JoinToken<'a> {
    server: &'a Arc<Server>,
    workspace: &'a str,
    cluster: &'a str,
    uid: &'a str,
}

impl JoinToken<'_> {
    fn refused(&self, message: &str) -> Status {
        Status::forbidden(ATOLL, "clusters", self.cluster, message)
    }

    /// Refuses users other than that of the token.
    fn check_user(&self, user: &User) -> Result<(), Status> {
        let name = agent::join_account(self.cluster);
        match user.name == format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{name}") {
            true => Ok(()),
            false => {
                Err(self.refused("only the agent of the cluster gets a certificate, with its join token"))
            }
        }
    }

    /// Uses the token for a key. It can be used again for the same key only.
    async fn use_for(&self, key: &str, certificate: &str) -> Result<(), Status> {
        let name = agent::join_account(self.cluster);
        let used = || self.refused("the join token was used before; join the cluster again for a new one");
        let issued = certificate::credential_id(certificate.as_bytes()).unwrap_or_default();
        let transform = |existing: Option<&Value>| {
            let mut secret = existing.cloned().ok_or_else(used)?;
            if object::annotation(&secret, agent::CLUSTER_UID) != Some(self.uid) {
                return Err(self.refused("the join token belongs to a Cluster that was removed"));
            }
            if object::annotation(&secret, agent::USED_FOR).is_some_and(|used_for| used_for != key) {
                return Err(used());
            }
            object::set_annotation(&mut secret, agent::USED_FOR, key);
            object::set_annotation(&mut secret, agent::ISSUED, &issued);
            Ok(secret)
        };
        let update = Update {
            subresource: "",
            manager: Some(MANAGER),
            size: 0,
            transform: &transform,
            admission: &NoAdmission,
            uid: None,
            create_missing: false,
            dry_run: false,
        };
        let at = ObjectRef { workspace: self.workspace, namespace: SYSTEM_NAMESPACE, name: &name };
        self.server.registry.update(secrets(self.server)?, &at, &update).await.map(drop)
    }
}

/// Deletes the join token that the certificate of this user was issued for, which is no longer needed.
pub async fn retire_join_token(server: &Arc<Server>, workspace: &str, cluster: &str, user: &User) {
    if agent::cluster_of(&user.name).is_none() {
        return;
    }
    let name = agent::join_account(cluster);
    let at = ObjectRef { workspace, namespace: SYSTEM_NAMESPACE, name: &name };
    let retire = async {
        let row = secrets(server)?;
        let Ok(found) = server.registry.get(row, &at) else { return Ok(()) };
        let secret = super::parse(&found.json())?;
        // A newer token is for an agent that has not joined yet.
        let issued = object::annotation(&secret, agent::ISSUED).unwrap_or_default();
        if !certificate::has_credential(user, issued) {
            return Ok(());
        }
        let options =
            DeleteOptions { uid: Some(object::uid(&secret).to_string()), ..DeleteOptions::default() };
        server.registry.delete(row, &at, &options, &NoAdmission).await.map(drop)
    };
    // It is deleted with the next use of the certificate, and expires within minutes.
    if let Err(status) = retire.await {
        tracing::debug!(%status, cluster, "cannot delete the join token of an agent");
    }
}

fn secrets(server: &Server) -> Result<&Row, Status> {
    server.registry.catalog.find("", "v1", "secrets").map(|row| &**row).ok_or_else(Status::not_found_generic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_clusters() {
        assert_eq!(cluster("/services/sync/east/certificate"), Some("east"));
        for path in
            ["/services/sync/certificate", "/services/sync/east/certificate/", "/services/sync//certificate"]
        {
            assert_eq!(cluster(path), None, "{path}");
        }
    }

    #[test]
    fn agents_belong_to_one_cluster() {
        let user = |name: String| User::authenticated(name, String::new(), Vec::new());
        let agent = user(agent::user("east", "u"));
        assert!(check_agent(&agent, "east", "u").is_ok());
        assert!(check_agent(&agent, "east", "v").is_err());
        assert!(check_agent(&agent, "west", "u").is_err());
        assert!(check_agent(&user("ann".into()), "east", "u").is_ok());
    }
}
