//! Reset fields: the fields that a write leaves unchanged and that its field manager therefore does not own.

// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/rest.go

use atoll_merge::apply::ResetFields;

use crate::row::Row;

/// Exceptions by group, resource and subresource; all others follow the rule in [`of`].
const SPECIAL: &[(&str, &str, &str, ResetFields)] = &[
    ("", "namespaces", "finalize", ResetFields::Paths(&[&["status"]])),
    (
        "",
        "pods",
        "status",
        ResetFields::Paths(&[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ]),
    ),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", "status", METADATA_AND_SPEC),
    ("apiregistration.k8s.io", "apiservices", "status", METADATA_AND_SPEC),
    ("apps", "deployments", "status", ResetFields::Paths(&[&["spec"], &["metadata", "labels"]])),
    ("certificates.k8s.io", "certificatesigningrequests", "", ResetFields::Paths(&[&["spec"], &["status"]])),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        "status",
        ResetFields::Paths(&[&["spec"], &["status", "conditions"]]),
    ),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        "approval",
        ResetFields::Paths(&[&["spec"], &["status", "certificate"]]),
    ),
    ("flowcontrol.apiserver.k8s.io", "flowschemas", "status", METADATA_AND_SPEC),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", "status", METADATA_AND_SPEC),
    ("networking.k8s.io", "servicecidrs", "status", METADATA_AND_SPEC),
    ("resource.k8s.io", "devicetaintrules", "status", METADATA_AND_SPEC),
    ("resource.k8s.io", "resourceclaims", "status", METADATA_AND_SPEC),
    ("storage.k8s.io", "volumeattachments", "status", METADATA_AND_SPEC),
];

const METADATA_AND_SPEC: ResetFields = ResetFields::Paths(&[&["metadata"], &["spec"]]);

/// Returns the reset fields. By default, a write of the object resets the status, and a write of the status
/// resets the spec.
pub fn of(row: &Row, subresource: &str) -> ResetFields {
    let special = SPECIAL.iter().find(|(group, resource, part, _)| {
        (*group, *resource, *part) == (row.group.as_str(), row.resource.as_str(), subresource)
    });
    if row.custom.is_some() {
        return match subresource {
            "status" => METADATA_AND_SPEC,
            "" if row.has_status() => ResetFields::Paths(&[&["status"]]),
            _ => ResetFields::NONE,
        };
    }
    match (special, subresource) {
        (Some((.., resets)), _) => *resets,
        (None, "status") => ResetFields::Paths(&[&["spec"]]),
        (None, "") if row.has_status() => ResetFields::Paths(&[&["status"]]),
        _ => ResetFields::NONE,
    }
}
