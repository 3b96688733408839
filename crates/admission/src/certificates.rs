//! Admission of CertificateSigningRequests: who may approve and sign them, and which are forbidden.

// upstream: plugin/pkg/admission/certificates/approval/admission.go
// upstream: plugin/pkg/admission/certificates/signing/admission.go
// upstream: plugin/pkg/admission/certificates/subjectrestriction/admission.go

use atoll_authz::Target;
use atoll_meta::Status;
use serde_json::Value;

use crate::{Operation, Plugin, Request};

pub struct CertificateApproval;
pub struct CertificateSigning;
pub struct CertificateSubjectRestriction;

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
/// The signer of client certificates for this API.
const OWN_CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

impl Plugin for CertificateApproval {
    fn handles(&self, request: &Request<'_>) -> bool {
        request.operation == Operation::Update && request.is_about(GROUP, REQUESTS, "approval")
    }

    fn validate(&self, request: &Request<'_>, new: &Value) -> Result<(), Status> {
        check_signer(request, new, "approve")
    }
}

impl Plugin for CertificateSigning {
    fn handles(&self, request: &Request<'_>) -> bool {
        request.operation == Operation::Update && request.is_about(GROUP, REQUESTS, "status")
    }

    fn validate(&self, request: &Request<'_>, new: &Value) -> Result<(), Status> {
        let part = |object: &Value, name: &str| match &object["status"][name] {
            Value::Array(items) if items.is_empty() => Value::Null,
            part => part.clone(),
        };
        let same = |name: &str| request.old.is_some_and(|old| part(old, name) == part(new, name));
        if same("certificate") && same("conditions") {
            return Ok(());
        }
        check_signer(request, new, "sign")
    }
}

/// Checks that the user may use this verb on the signer of the stored request.
fn check_signer(request: &Request<'_>, new: &Value, verb: &str) -> Result<(), Status> {
    let signer = request.old.and_then(|old| old["spec"]["signerName"].as_str()).unwrap_or_default();
    let may = |name: &str| {
        let (subresource, namespace) = ("", "");
        let target = Target::Resource { group: GROUP, resource: "signers", subresource, namespace, name };
        (request.authorize)(verb, target)
    };
    let domain = signer.split('/').next().unwrap_or_default();
    if may(signer) || may(&format!("{domain}/*")) {
        return Ok(());
    }
    let message = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(request.forbidden(new, message))
}

impl Plugin for CertificateSubjectRestriction {
    fn handles(&self, request: &Request<'_>) -> bool {
        request.creates(GROUP, REQUESTS)
    }

    fn validate(&self, request: &Request<'_>, new: &Value) -> Result<(), Status> {
        if new["spec"]["signerName"] != OWN_CLIENTS {
            return Ok(());
        }
        let encoded = new["spec"]["request"].as_str().unwrap_or_default();
        let groups = match atoll_authn::certificate::requested_groups(encoded) {
            Ok(groups) => groups,
            Err(error) => return Err(request.forbidden(new, format!("failed to parse CSR: {error}"))),
        };
        if groups.iter().any(|group| group == atoll_authn::MASTERS) {
            let message = format!("use of {OWN_CLIENTS} signer with system:masters group is not allowed");
            return Err(request.forbidden(new, message));
        }
        Ok(())
    }
}
