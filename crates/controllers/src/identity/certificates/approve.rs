//! Approves client certificates that a kubelet requests for itself, or that an authorized user requests for a
//! kubelet.

// upstream: pkg/controller/certificates/approver/sarapprove.go

use atoll_informer::{ApiScope, Key, Next, resources};
use atoll_meta::Status;
use serde_json::json;

use super::{add_condition, is_undecided, parse_request, recognize};
use crate::context::Context;

pub async fn run(context: Context) {
    let api = context.api();
    super::work(api, "approval of certificates", is_undecided, |key| approve(api.clone(), key)).await;
}

async fn approve(api: ApiScope, key: Key) -> Result<Next, Status> {
    let requests = &resources::CERTIFICATE_SIGNING_REQUESTS;
    let mut request = api.get(requests, &key).await?;
    let Some(csr) = parse_request(&request).filter(|_| is_undecided(&request)) else { return Ok(Next::Done) };
    let kinds = recognize::approvable(&request["spec"], &csr);
    let reviews = format!("{}/apis/authorization.k8s.io/v1/subjectaccessreviews", api.root(&key.workspace)?);
    for (subresource, message) in kinds {
        let spec = &request["spec"];
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": spec["username"],
                "uid": spec["uid"],
                "groups": spec["groups"],
                "extra": spec["extra"],
                "resourceAttributes": {
                    "group": requests.group, "resource": requests.plural, "verb": "create",
                    "subresource": subresource, "version": "*",
                },
            },
        });
        let answer = api.client().create(&reviews, &review).await?;
        if answer["status"]["allowed"] == true {
            let approval =
                json!({ "type": "Approved", "status": "True", "reason": "AutoApproved", "message": message });
            add_condition(&mut request, approval);
            return api.update_subresource(requests, "approval", &request).await.map(|_| Next::Done);
        }
    }
    // The requesting user may be authorized later.
    Ok(if kinds.is_empty() { Next::Done } else { Next::Again })
}
