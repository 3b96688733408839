//! CertificateSigningRequests: those of kubelets are approved if they may ask, approved ones are signed, old ones go.
//!
//! A certificate that was asked for in a workspace other than the root is good in that workspace only: whoever may approve
//! there shall not make users for others.

mod age;
mod recognize;

use std::sync::Arc;
use std::time::Duration;

use atoll_authn::authority::Authority;
use atoll_authn::request::{CertificateRequest, Terms};
use atoll_client::{Client, WatchEvent};
use atoll_meta::{Status, object, time};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::retry::{Outcome, Queue};
use crate::{WORKSPACE, watching};
use atoll_informer::{Clock, Tree};

const GROUP: &str = "/apis/certificates.k8s.io/v1";
const RESOURCE: &str = "certificatesigningrequests";
/// How long a certificate is good for unless less was asked for: a year.
const LONGEST: i64 = 8760 * 3600;
const SHORTEST: i64 = 600;
/// How often old requests are looked for.
const CLEANING: Duration = Duration::from_secs(3600);
/// Requests that are worked on together.
const AT_ONCE: usize = 8;
const ROOT: &str = "root";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    workspace: String,
    name: String,
}

/// What of it is done here.
#[derive(Clone, Copy)]
pub struct Duties {
    pub approve: bool,
    pub sign: bool,
    pub clean: bool,
}

pub async fn run(
    client: Client,
    tree: Arc<Tree>,
    authority: Arc<Authority>,
    clock: Arc<dyn Clock>,
    duties: Duties,
) {
    // Not every server has them.
    if client.get(GROUP).await.is_err_and(|status| status.reason() == "NotFound") {
        return;
    }
    let shared = Arc::new(Shared { client: client.clone(), tree, authority, clock, duties });
    let cleaning = shared.clone();
    let queue = Queue::start(AT_ONCE, move |target: Target| {
        let shared = shared.clone();
        async move { shared.handle(&target).await }
    });
    let path = format!("/clusters/*{GROUP}/{RESOURCE}?watch=true&allowWatchBookmarks=true");
    let requests = watching::forever(&client, &path, "certificate signing requests", |event| {
        if let WatchEvent::Added(request) | WatchEvent::Modified(request) = event
            && let Some(workspace) = object::annotation(&request, WORKSPACE)
        {
            queue.add(Target { workspace: workspace.into(), name: object::name(&request).into() });
        }
    });
    tokio::select! {
        () = requests => {}
        () = cleaning.clean(), if duties.clean => {}
    }
}

struct Shared {
    client: Client,
    tree: Arc<Tree>,
    authority: Arc<Authority>,
    clock: Arc<dyn Clock>,
    duties: Duties,
}

impl Shared {
    async fn handle(&self, target: &Target) -> Outcome {
        // A workspace may be heard of after what is in it.
        let Some(workspace) = self.tree.path(&target.workspace) else { return Outcome::Again };
        match self.try_handle(&target.workspace, &workspace, &target.name).await {
            Ok(outcome) => outcome,
            Err(status) if status.reason() == "NotFound" => Outcome::Done,
            // Whoever was faster is heard of.
            Err(status) if status.reason() == "Conflict" => Outcome::Again,
            Err(status) => {
                tracing::warn!(%status, workspace, request = target.name, "a certificate could not be made; trying again");
                Outcome::Again
            }
        }
    }

    async fn try_handle(&self, id: &str, workspace: &str, name: &str) -> Result<Outcome, Status> {
        let path = format!("/clusters/{workspace}{GROUP}/{RESOURCE}/{name}");
        let request = self.client.get(&path).await?;
        if !age::certificate(&request).is_empty() {
            return Ok(Outcome::Done);
        }
        let text =
            STANDARD.decode(request["spec"]["request"].as_str().unwrap_or_default()).unwrap_or_default();
        let Ok(wanted) = CertificateRequest::from_pem(&text) else { return Ok(Outcome::Done) };
        let has = |kind: &str| age::conditions(&request).any(|condition| condition["type"] == kind);
        if !has("Approved") && !has("Denied") {
            return match self.duties.approve {
                true => self.approve(workspace, &path, request, &wanted).await,
                false => Ok(Outcome::Done),
            };
        }
        let is_true =
            |kind: &str| age::conditions(&request).any(|own| own["type"] == kind && own["status"] == "True");
        if !has("Approved") || has("Denied") || is_true("Failed") || !self.duties.sign {
            return Ok(Outcome::Done);
        }
        self.sign(id, &path, request, &wanted).await
    }

    /// Approves what a kubelet asks for itself, or what those may ask for who may ask for kubelets.
    async fn approve(
        &self,
        workspace: &str,
        path: &str,
        mut request: Value,
        wanted: &CertificateRequest,
    ) -> Result<Outcome, Status> {
        let kinds = recognize::approvable(&request["spec"], wanted);
        for (subresource, message) in kinds {
            let spec = &request["spec"];
            let review = json!({ "spec": {
                "user": spec["username"],
                "uid": spec["uid"],
                "groups": spec["groups"],
                "extra": spec["extra"],
                "resourceAttributes": {
                    "group": "certificates.k8s.io", "resource": RESOURCE, "verb": "create",
                    "subresource": subresource, "version": "*",
                },
            }});
            let reviews = format!("/clusters/{workspace}/apis/authorization.k8s.io/v1/subjectaccessreviews");
            let answer = self.client.create(&reviews, &review).await?;
            if answer["status"]["allowed"] == true {
                let approval = json!({ "type": "Approved", "status": "True", "reason": "AutoApproved", "message": message });
                add_condition(&mut request, approval);
                self.client.update(&format!("{path}/approval"), &request).await?;
                return Ok(Outcome::Done);
            }
        }
        // Somebody may be given the right later.
        Ok(if kinds.is_empty() { Outcome::Done } else { Outcome::Again })
    }

    async fn sign(
        &self,
        id: &str,
        path: &str,
        mut request: Value,
        wanted: &CertificateRequest,
    ) -> Result<Outcome, Status> {
        let spec = &request["spec"];
        let now = self.clock.now().seconds;
        match recognize::signable(spec, wanted) {
            // Another signer's.
            None => return Ok(Outcome::Done),
            Some(Err(problem)) => {
                let failure = json!({
                    "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": problem,
                    "lastUpdateTime": time::format(now),
                });
                add_condition(&mut request, failure);
            }
            Some(Ok(())) => {
                let usages: Vec<&str> = recognize::usages(spec).collect();
                let asked = spec["expirationSeconds"].as_i64().unwrap_or(LONGEST);
                let workspace = Some(id).filter(|id| *id != ROOT);
                let terms =
                    Terms { usages: &usages, seconds: asked.clamp(SHORTEST, LONGEST), workspace, now };
                match self.authority.certify(wanted, &terms) {
                    Ok(pem) => request["status"]["certificate"] = STANDARD.encode(pem).into(),
                    Err(error) => {
                        tracing::warn!(%error, path, "a request for a certificate cannot be signed");
                        return Ok(Outcome::Again);
                    }
                }
            }
        }
        self.client.update(&format!("{path}/status"), &request).await.map(|_| Outcome::Done)
    }

    /// Deletes, now and every hour, what nobody needs any more.
    async fn clean(&self) {
        loop {
            let all = self.client.get(&format!("/clusters/*{GROUP}/{RESOURCE}")).await;
            let all = all.map(|mut list| list["items"].take()).unwrap_or_default();
            for request in all.as_array().into_iter().flatten() {
                let workspace = object::annotation(request, WORKSPACE).and_then(|id| self.tree.path(id));
                let (Some(workspace), true) = (workspace, age::is_past(request, self.clock.now().seconds))
                else {
                    continue;
                };
                let path = format!("/clusters/{workspace}{GROUP}/{RESOURCE}/{}", object::name(request));
                if let Err(status) = self.client.delete(&path).await {
                    tracing::debug!(%status, path, "an old request for a certificate is still there");
                }
            }
            tokio::time::sleep(CLEANING).await;
        }
    }
}

fn add_condition(request: &mut Value, condition: Value) {
    match request["status"]["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => request["status"]["conditions"] = json!([condition]),
    }
}
