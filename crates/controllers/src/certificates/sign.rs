//! Signs what was approved.
//!
//! A certificate that was asked for in a workspace other than the root is good in that workspace only: whoever may approve
//! there shall not make users for others. Programs that know nothing of workspaces take any certificate of an authority that
//! they trust, so these have an authority of their own; and so have kubelets, for whoever may approve theirs chooses the names
//! and addresses in them, and one of these may be the API server's.

use std::sync::Arc;

use atoll_authn::authority::Authority;
use atoll_authn::request::Terms;
use atoll_informer::{Key, Next, resources};
use atoll_meta::{Status, time};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{add_condition, asked, is_waiting, recognize};
use crate::context::Context;

/// How long a certificate is good for unless less was asked for: a year.
const LONGEST: i64 = 8760 * 3600;
const SHORTEST: i64 = 600;
const ROOT: &str = "root";

pub async fn run(context: Context) {
    let Some(authority) = context.signers.authority.clone() else {
        tracing::info!("certificates that are asked for are not signed: there is no authority");
        return;
    };
    let world = context.world();
    super::work(world, "certificates", is_waiting, |key| sign(context.clone(), authority.clone(), key)).await;
}

async fn sign(context: Context, authority: Arc<Authority>, key: Key) -> Result<Next, Status> {
    let (world, requests) = (context.world(), &resources::CERTIFICATE_SIGNING_REQUESTS);
    let mut request = world.get(requests, &key).await?;
    let Some(wanted) = asked(&request).filter(|_| is_waiting(&request)) else { return Ok(Next::Done) };
    let spec = &request["spec"];
    let now = context.clock.now().seconds;
    match recognize::signable(spec, &wanted) {
        // Another signer's.
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
            let asked = spec["expirationSeconds"].as_i64().unwrap_or(LONGEST);
            let workspace = Some(&*key.workspace).filter(|id| !id.is_empty() && *id != ROOT);
            let terms = Terms { usages: &usages, seconds: asked.clamp(SHORTEST, LONGEST), workspace, now };
            let signers = &context.signers;
            let other = match recognize::is_kubelet_serving(spec) {
                true => signers.kubelets.as_ref(),
                false => signers.workspaces.as_ref().filter(|_| workspace.is_some()),
            };
            let signed = other.unwrap_or(&authority).certify(&wanted, &terms);
            let pem = signed.map_err(|error| Status::internal_error(error.to_string()))?;
            request["status"]["certificate"] = STANDARD.encode(pem).into();
        }
    }
    world.update_status(requests, &request).await.map(|_| Next::Done)
}
