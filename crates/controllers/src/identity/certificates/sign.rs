//! Signs approved certificate signing requests.
//!
//! A certificate that was requested in a workspace other than root is valid in that workspace only, so that a
//! user with approval rights there cannot create users of other workspaces. Programs that do not know
//! workspaces accept any certificate of an authority that they trust, so workspace certificates are signed by
//! a separate authority. Serving certificates of kubelets have a separate authority, too: their approver
//! chooses the names and addresses in them, which may be those of the API server.

// upstream: pkg/controller/certificates/signer/signer.go

use std::sync::Arc;

use atoll_authn::authority::Authority;
use atoll_authn::request::Terms;
use atoll_informer::{Key, Next, resources};
use atoll_meta::{Status, time};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{add_condition, is_waiting, parse_request, recognize};
use crate::context::Context;

/// Longest lifetime of a certificate, and the default: one year.
const LONGEST: i64 = 8760 * 3600;
const SHORTEST: i64 = 600;
const ROOT: &str = "root";

pub async fn run(context: Context) {
    let Some(authority) = context.signers.authority.clone() else {
        tracing::info!("certificate signing disabled: no --cluster-signing-cert-file configured");
        return;
    };
    let api = context.api();
    super::work(api, "certificates", is_waiting, |key| sign(context.clone(), authority.clone(), key)).await;
}

async fn sign(context: Context, authority: Arc<Authority>, key: Key) -> Result<Next, Status> {
    let (api, requests) = (context.api(), &resources::CERTIFICATE_SIGNING_REQUESTS);
    let mut request = api.get(requests, &key).await?;
    let Some(csr) = parse_request(&request).filter(|_| is_waiting(&request)) else { return Ok(Next::Done) };
    let spec = &request["spec"];
    let now = context.clock.now().seconds;
    match recognize::signable(spec, &csr) {
        // The request is for a signer that is not handled here.
        None => return Ok(Next::Done),
        Some(Err(problem)) => {
            let failure = json!({
                "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": problem,
                "lastUpdateTime": time::format(now),
            });
            add_condition(&mut request, failure);
        }
        Some(Ok(())) => {
            let usages: Vec<&str> = recognize::usages(spec).collect();
            let requested = spec["expirationSeconds"].as_i64().unwrap_or(LONGEST);
            let workspace = Some(&*key.workspace).filter(|id| !id.is_empty() && *id != ROOT);
            let terms =
                Terms { usages: &usages, seconds: requested.clamp(SHORTEST, LONGEST), workspace, now };
            let signers = &context.signers;
            let other = match recognize::is_kubelet_serving(spec) {
                true => signers.kubelets.as_ref(),
                false => signers.workspaces.as_ref().filter(|_| workspace.is_some()),
            };
            let signed = other.unwrap_or(&authority).certify(&csr, &terms);
            let pem = signed.map_err(|error| Status::internal_error(error.to_string()))?;
            request["status"]["certificate"] = STANDARD.encode(pem).into();
        }
    }
    api.update_status(requests, &request).await.map(|_| Next::Done)
}
