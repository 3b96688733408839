//! Who is asking, where that depends on what exists: a ServiceAccount's token is good as long as the account is, and
//! whatever else it is bound to.

use atoll_authn::service_account::Verified;
use atoll_authn::{Unauthorized, User, bearer_token};
use atoll_registry::Place;
use serde_json::Value;

use crate::Server;
use crate::access::Caller;

impl Server {
    /// The user behind a verified client certificate or an `Authorization` header, for a request in `workspace`, if that exists.
    pub fn identify(
        &self,
        certificate: Option<&User>,
        header: Option<&str>,
        workspace: Option<&str>,
    ) -> Result<Caller, Unauthorized> {
        let known = self.authenticator.authenticate(certificate, header);
        let (Err(Unauthorized), Some(token)) = (&known, header.and_then(bearer_token)) else {
            return known.map(|user| Caller { user, at_home: false });
        };
        let key = self.token_key.as_ref().ok_or(Unauthorized)?;
        let verified = key.verify(token, self.registry.clock.now())?;
        let at_home = workspace == Some(&*verified.workspace);
        match at_home && self.still_exists(&verified) {
            true => Ok(Caller { user: verified.user, at_home }),
            false => Err(Unauthorized),
        }
    }

    fn still_exists(&self, verified: &Verified) -> bool {
        let claims = &verified.claims;
        let has = |resource: &str, namespace: &str, claim: &Value| {
            let Some(row) = self.registry.catalog.stored("", resource) else { return false };
            let name = claim["name"].as_str().unwrap_or_default();
            let place = Place { workspace: &verified.workspace, namespace, name };
            let Ok(object) = self.registry.get(row, &place) else { return false };
            let parsed = atoll_meta::json::parse(&object.json());
            parsed.is_ok_and(|object| object.value["metadata"]["uid"] == claim["uid"])
        };
        let namespace = verified.namespace.as_str();
        let bound = |resource, namespace, claim: &str| {
            claims.get(claim).is_none_or(|claim| has(resource, namespace, claim))
        };
        // A Pod's token also names the Pod's node, which may be gone; one that is bound to a node names no Pod.
        has("serviceaccounts", namespace, &claims["serviceaccount"])
            && bound("pods", namespace, "pod")
            && bound("secrets", namespace, "secret")
            && (claims.get("pod").is_some() || bound("nodes", "", "node"))
    }
}
