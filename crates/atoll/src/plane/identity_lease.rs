//! The Lease in `kube-system` by which an API server announces itself, with the name and labels of
//! kube-apiserver's.

// upstream: pkg/controlplane/apiserver/server.go
// upstream: staging/src/k8s.io/apiserver/pkg/server/config.go
// upstream: pkg/controlplane/controller/apiserverleasegc/gc_controller.go

use std::sync::Arc;
use std::time::Duration;

use atoll_meta::{Status, id, time};
use atoll_registry::bootstrap::ROOT;
use atoll_registry::{DeleteOptions, NoAdmission, ObjectRef, Registry, Row, Update};
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};

const GROUP: &str = "coordination.k8s.io";
const RESOURCE: &str = "leases";
const NAMESPACE: &str = "kube-system";
/// Field manager of the Lease.
const MANAGER: &str = "kube-apiserver";
const LABEL: &str = "apiserver.kubernetes.io/identity";
const LABEL_VALUE: &str = "kube-apiserver";
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
const DURATION_SECONDS: i64 = 3_600;
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// Number of renewals between two deletions of expired Leases.
const RENEWALS_PER_CLEANUP: u32 = 360;

/// Renews the Lease for as long as the server runs.
pub async fn run(registry: Arc<Registry>) {
    let Some(row) = registry.catalog.stored(GROUP, RESOURCE).cloned() else { return };
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    let name = name(&host);
    let mut random = [0; 16];
    if let Err(error) = getrandom::fill(&mut random) {
        tracing::warn!(%error, "cannot read random numbers; this server gets no identity Lease");
        return;
    }
    let holder = format!("{name}_{}", id::uuid_v4(random));
    let mut interval = tokio::time::interval(RENEW_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for renewals in (0_u32..).cycle() {
        interval.tick().await;
        if let Err(status) = renew(&registry, &row, &name, &host, &holder).await {
            tracing::warn!(%status, "cannot renew this server's identity Lease; will retry in ten seconds");
        }
        if renewals % RENEWALS_PER_CLEANUP == 0 {
            clean(&registry, &row).await;
        }
    }
}

/// The name of the Lease, which only depends on the host name, as in kube-apiserver.
fn name(host: &str) -> String {
    let mut hashed = Vec::new();
    for part in [host, LABEL_VALUE] {
        let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
        hashed.extend_from_slice(&length.to_be_bytes());
        hashed.extend_from_slice(part.as_bytes());
    }
    format!("apiserver-{}", base32(&digest(&SHA256, &hashed).as_ref()[..16]))
}

/// Encodes as base32, in lower case and without padding.
fn base32(bytes: &[u8]) -> String {
    let bit = |index: usize| bytes.get(index / 8).map_or(0, |byte| byte >> (7 - index % 8) & 1);
    let digit = |start: usize| (start..start + 5).fold(0, |digit, index| digit << 1 | bit(index));
    let letter = |digit: u8| char::from(if digit < 26 { b'a' + digit } else { b'2' + digit - 26 });
    (0..bytes.len() * 8).step_by(5).map(|start| letter(digit(start))).collect()
}

/// Whether a host name is a valid label value; otherwise the Lease has no host name label.
fn is_label_value(text: &str) -> bool {
    let is_edge = |byte: &u8| byte.is_ascii_alphanumeric();
    text.len() <= 63
        && text.bytes().all(|byte| is_edge(&byte) || b"-_.".contains(&byte))
        && text.as_bytes().first().is_some_and(is_edge)
        && text.as_bytes().last().is_some_and(is_edge)
}

async fn renew(registry: &Registry, row: &Row, name: &str, host: &str, holder: &str) -> Result<(), Status> {
    let lease_ref = ObjectRef { workspace: ROOT, namespace: NAMESPACE, name };
    let now = time::format_micro(registry.clock.seconds(), 0);
    let transform = |existing: Option<&Value>| {
        let mut lease = existing.cloned().unwrap_or_else(|| {
            json!({
                "apiVersion": row.api_version(),
                "kind": row.kind,
                "metadata": { "name": name, "namespace": NAMESPACE },
            })
        });
        lease["metadata"]["labels"][LABEL] = LABEL_VALUE.into();
        if is_label_value(host) {
            lease["metadata"]["labels"][HOSTNAME_LABEL] = host.into();
        }
        lease["spec"]["holderIdentity"] = holder.into();
        lease["spec"]["leaseDurationSeconds"] = DURATION_SECONDS.into();
        lease["spec"]["renewTime"] = now.as_str().into();
        Ok(lease)
    };
    let update = Update {
        subresource: "",
        manager: Some(MANAGER),
        size: 0,
        transform: &transform,
        admission: &NoAdmission,
        uid: None,
        create_missing: true,
        dry_run: false,
    };
    registry.update(row, &lease_ref, &update).await.map(|_| ())
}

/// Deletes Leases of servers that have not renewed them in time, for example from a restored snapshot.
async fn clean(registry: &Registry, row: &Row) {
    let now = registry.clock.seconds();
    let snapshot = registry.snapshot();
    let scope = row.scope(Some(ROOT), NAMESPACE);
    let leases: Vec<_> =
        snapshot.list(&scope, None).filter(|lease| lease.facts.label(LABEL) == Some(LABEL_VALUE)).collect();
    for lease in leases {
        let parsed = atoll_meta::json::parse(&lease.json()).map(|parsed| parsed.value).unwrap_or_default();
        if !is_expired(&parsed, now) {
            continue;
        }
        let lease_ref = ObjectRef { workspace: ROOT, namespace: NAMESPACE, name: lease.name() };
        let options =
            DeleteOptions { resource_version: Some(lease.revision.to_string()), ..DeleteOptions::default() };
        if let Err(status) = registry.delete(row, &lease_ref, &options, &NoAdmission).await
            && !matches!(status.reason(), "NotFound" | "Conflict")
        {
            tracing::warn!(%status, name = lease.name(), "cannot delete the expired identity Lease of another server");
        }
    }
}

fn is_expired(lease: &Value, now: i64) -> bool {
    let lasts = lease["spec"]["leaseDurationSeconds"].as_i64();
    let renewed = lease["spec"]["renewTime"].as_str().and_then(|text| time::parse(text).ok());
    match (lasts, renewed) {
        (Some(lasts), Some(renewed)) => renewed.seconds.saturating_add(lasts) < now,
        // A Lease without these fields is never renewed.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_names_match_upstream() {
        // The name that kube-apiserver 1.36 uses on a host of this name.
        assert_eq!(name("vm"), "apiserver-wlv32tlttr4jl3gtroqexyxapa");
        assert!(is_label_value("a-host.example.com") && !is_label_value("-host") && !is_label_value(""));
    }

    #[test]
    fn leases_expire_without_renewal() {
        let lease = |renewed: &str| json!({ "spec": { "leaseDurationSeconds": 3600, "renewTime": renewed } });
        let renewed = time::parse("2026-01-01T00:00:00.000000Z").unwrap().seconds;
        assert!(!is_expired(&lease("2026-01-01T00:00:00.000000Z"), renewed + 3_600));
        assert!(is_expired(&lease("2026-01-01T00:00:00.000000Z"), renewed + 3_601));
        assert!(is_expired(&json!({ "spec": {} }), renewed));
    }
}
