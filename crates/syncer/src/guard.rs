//! Verifies that the cluster may be written to: its identity, its claim, and its lease.

pub mod pauses;
pub mod write_gate;

use std::time::Duration;

use atoll_fleet::health::ClusterProblem;
use atoll_fleet::marks;
use atoll_meta::{Status, object};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::connections::cluster_client::ClusterClient;
use crate::connections::sync_view::ClusterRegistration;
use crate::settings::{Access, Settings};

/// Attempts after write conflicts before another holder is reported.
const ATTEMPTS: usize = 4;

const IDENTITY: &str = "/api/v1/namespaces/kube-system";

/// Reasons for which the syncer must not write the lease.
const NOT_THIS_CLUSTER: [&str; 2] = ["AnotherCluster", "ClaimedByAnother"];

/// Reason and message of the Ready condition when the cluster cannot be synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    pub reason: &'static str,
    pub message: String,
}

/// Properties of the cluster found by a check.
#[derive(Clone, Debug, Default)]
pub struct ClusterCheck {
    /// Uid of its namespace `kube-system`.
    pub identity: String,
    /// Response time.
    pub latency: Duration,
}

/// Data to write to the lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseNote {
    /// Interval of renewals.
    pub interval: Duration,
    /// Start and reason of an outage of the control plane.
    pub lost: Option<String>,
}

impl LeaseNote {
    fn leave(&self, lease: &mut Value) {
        match &self.lost {
            Some(lost) => object::set_annotation(lease, marks::LOST, lost),
            None => object::remove_annotation(lease, marks::LOST),
        }
    }
}

pub struct Guard {
    /// Identity that was found first; it must not change.
    identity: Option<String>,
    /// The lease as last observed, and since when it has not changed.
    lease: Option<(Value, Instant)>,
}

impl Guard {
    pub fn new(settings: &Settings) -> Guard {
        Guard { identity: settings.identity.clone(), lease: None }
    }

    /// Verifies the cluster and renews the lease. Returns the properties found, even if the verification
    /// fails.
    pub async fn check(
        &mut self,
        below: &ClusterClient,
        settings: &Settings,
        registration: &ClusterRegistration,
        note: &LeaseNote,
    ) -> (ClusterCheck, Result<(), NotReady>) {
        let mut check = ClusterCheck::default();
        let asked = Instant::now();
        let system = below.get(IDENTITY).await;
        check.latency = asked.elapsed();
        let verdict = async {
            let system = system.map_err(|status| NotReady::of(&status, settings))?;
            let system = system.ok_or_else(|| {
                let detail = "it has no namespace kube-system, so it cannot be identified";
                NotReady::new("AnotherCluster", &settings.cluster, detail)
            })?;
            check.identity = object::uid(&system).to_string();
            let pinned = registration.identity.as_ref().or(self.identity.as_ref());
            if let Some(pinned) = pinned.filter(|pinned| **pinned != check.identity) {
                let detail = format!("id {} instead of {pinned}", check.identity);
                return Err(NotReady::new("AnotherCluster", &settings.cluster, &detail));
            }
            self.identity = Some(check.identity.clone());
            if settings.access == Access::Observe || registration.observe {
                return Ok(());
            }
            claim(below, settings, registration).await?;
            self.renew(below, settings, registration, note).await
        }
        .await;
        // The lease belongs to another cluster and must not be released either.
        if verdict.as_ref().is_err_and(|problem| NOT_THIS_CLUSTER.contains(&problem.reason)) {
            self.lease = None;
        }
        (check, verdict)
    }

    /// Renews the lease. After a write conflict, the lease is read again to determine its holder.
    async fn renew(
        &mut self,
        below: &ClusterClient,
        settings: &Settings,
        registration: &ClusterRegistration,
        note: &LeaseNote,
    ) -> Result<(), NotReady> {
        for _ in 1..ATTEMPTS {
            match self.renew_once(below, settings, registration, note).await {
                Err(RenewError::Answered(status)) if status.code() == 409 => {}
                outcome => return outcome.map_err(|error| error.problem(settings)),
            }
        }
        let outcome = self.renew_once(below, settings, registration, note).await;
        outcome.map_err(|error| error.problem(settings))
    }

    async fn renew_once(
        &mut self,
        below: &ClusterClient,
        settings: &Settings,
        registration: &ClusterRegistration,
        note: &LeaseNote,
    ) -> Result<(), RenewError> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", marks::SYSTEM_NAMESPACE);
        let own = format!("{path}/{}", marks::LEASE);
        let holder = format!("{}/{}", registration.control_plane, settings.instance);
        let now = settings.clock.now().to_micro_time();
        let fresh = |transitions: i64, acquired: &str| {
            json!({
                "holderIdentity": holder, "leaseDurationSeconds": duration(note.interval).as_secs(), "renewTime": now,
                "acquireTime": acquired, "leaseTransitions": transitions,
            })
        };
        // Usually the lease is unchanged, and one request is enough.
        let held = self.lease.take();
        if let Some((mut lease, _)) =
            held.clone().filter(|(lease, _)| lease["spec"]["holderIdentity"] == holder)
        {
            lease["spec"]["renewTime"] = now.clone().into();
            lease["spec"]["leaseDurationSeconds"] = duration(note.interval).as_secs().into();
            note.leave(&mut lease);
            if let Ok(renewed) = below.renew(&own, &lease).await {
                self.lease = Some((renewed, Instant::now()));
                return Ok(());
            }
        }
        let Some(mut lease) = below.get(&own).await.map_err(RenewError::Answered)? else {
            let mut lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": marks::LEASE, "namespace": marks::SYSTEM_NAMESPACE },
                "spec": fresh(0, &now),
            });
            note.leave(&mut lease);
            let made = below.establish(&path, &lease).await.map_err(RenewError::Answered)?;
            self.lease = Some((made, Instant::now()));
            return Ok(());
        };
        let other = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_string();
        // Measured with the local clock, because the clocks of two machines may differ.
        let same = |(seen, _): &&(Value, Instant)| {
            object::resource_version(seen) == object::resource_version(&lease)
        };
        let since = held.as_ref().filter(same).map_or_else(Instant::now, |(_, since)| *since);
        let seconds = lease["spec"]["leaseDurationSeconds"].as_u64().unwrap_or(0).min(600);
        if !other.is_empty() && other != holder && since.elapsed() < Duration::from_secs(seconds) {
            self.lease = Some((lease, since));
            return Err(RenewError::Held(NotReady::new("HeldByAnother", &settings.cluster, &other)));
        }
        let transitions = lease["spec"]["leaseTransitions"].as_i64().unwrap_or(0);
        let acquired = lease["spec"]["acquireTime"].as_str().unwrap_or(&now).to_string();
        lease["spec"] = match other == holder {
            true => fresh(transitions, &acquired),
            false => fresh(transitions + 1, &now),
        };
        note.leave(&mut lease);
        let renewed = below.renew(&own, &lease).await.map_err(RenewError::Answered)?;
        self.lease = Some((renewed, Instant::now()));
        Ok(())
    }

    /// Releases the lease, so that another syncer can acquire it at once.
    pub async fn release(
        &mut self,
        below: &ClusterClient,
        settings: &Settings,
        registration: &ClusterRegistration,
    ) {
        let holder = format!("{}/{}", registration.control_plane, settings.instance);
        let Some((mut lease, _)) = self.lease.take() else { return };
        if lease["spec"]["holderIdentity"] == holder {
            lease["spec"]["holderIdentity"] = "".into();
            let path = format!(
                "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}",
                marks::SYSTEM_NAMESPACE,
                marks::LEASE
            );
            let _ = below.renew(&path, &lease).await;
        }
    }
}

/// Reason why the lease was not renewed.
enum RenewError {
    /// Another syncer holds it.
    Held(NotReady),
    /// The request failed.
    Answered(Status),
}

impl RenewError {
    fn problem(self, settings: &Settings) -> NotReady {
        match self {
            RenewError::Held(problem) => problem,
            RenewError::Answered(status) => NotReady::of(&status, settings),
        }
    }
}

/// Returns the duration of a lease with the given renewal interval.
pub fn duration(interval: Duration) -> Duration {
    (interval * 3).max(Duration::from_secs(1))
}

/// Verifies the claim, and creates it if it does not exist.
async fn claim(
    below: &ClusterClient,
    settings: &Settings,
    registration: &ClusterRegistration,
) -> Result<(), NotReady> {
    let collection = format!("/api/v1/namespaces/{}/configmaps", marks::SYSTEM_NAMESPACE);
    let found = below.get(&format!("{collection}/{}", marks::CLAIM)).await;
    let found = match found.map_err(|status| NotReady::of(&status, settings))? {
        Some(found) => found,
        None => {
            let workspace = match registration.workspace.is_empty() {
                true => &settings.workspace,
                false => &registration.workspace,
            };
            let made = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": marks::CLAIM, "namespace": marks::SYSTEM_NAMESPACE },
                "data": { "controlPlane": registration.control_plane, "workspace": workspace, "cluster": registration.cluster },
            });
            match create_in_system_namespace(below, &collection, &made).await {
                // `atoll cluster join` may create it at the same time; its content decides.
                Err(status) if status.reason() == "AlreadyExists" => {
                    let found = below.get(&format!("{collection}/{}", marks::CLAIM)).await;
                    found.map_err(|status| NotReady::of(&status, settings))?.unwrap_or_default()
                }
                made => made.map_err(|status| NotReady::of(&status, settings))?,
            }
        }
    };
    check_claim(&settings.cluster, &found["data"], registration)
}

fn check_claim(cluster: &str, data: &Value, registration: &ClusterRegistration) -> Result<(), NotReady> {
    let said = |field: &str| data[field].as_str().unwrap_or_default();
    if said("controlPlane") == registration.control_plane && said("cluster") == registration.cluster {
        return Ok(());
    }
    let who = match said("controlPlane") == registration.control_plane {
        true => format!("another Cluster of this control plane, uid {}", said("cluster")),
        false => format!("control plane {}", said("controlPlane")),
    };
    Err(NotReady::new("ClaimedByAnother", cluster, &who))
}

/// Creates an object in the system namespace, and the namespace if it does not exist.
async fn create_in_system_namespace(
    below: &ClusterClient,
    collection: &str,
    object: &Value,
) -> Result<Value, Status> {
    let is_missing = |status: &Status| status.code() == 404;
    match below.establish(collection, object).await {
        Err(status) if is_missing(&status) => {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": marks::SYSTEM_NAMESPACE },
            });
            match below.establish("/api/v1/namespaces", &namespace).await {
                Ok(_) => {}
                Err(status) if status.reason() == "AlreadyExists" => {}
                Err(status) => return Err(status),
            }
            below.establish(collection, object).await
        }
        answer => answer,
    }
}

impl NotReady {
    pub fn new(reason: &'static str, cluster: &str, detail: &str) -> NotReady {
        let message = ClusterProblem::find(reason).map(|problem| problem.message(cluster, detail));
        NotReady { reason, message: message.unwrap_or_else(|| detail.to_string()) }
    }

    /// Returns the reason for a failed request.
    pub fn of(status: &Status, settings: &Settings) -> NotReady {
        let causes = status.details().map(|details| details.causes.as_slice()).unwrap_or_default();
        let unreached = causes.iter().find_map(|cause| ClusterProblem::find(&cause.reason));
        let reason = match (unreached, status.code()) {
            (Some(problem), _) => problem.reason,
            (None, 401) if settings.has_expired() => "CredentialsExpired",
            (None, 401) => "CredentialsRefused",
            (None, 403) => "PermissionsMissing",
            (None, 409) => "HeldByAnother",
            (None, 429 | 503) => "Overloaded",
            (None, 504) => "TimedOut",
            (None, 500..=599) => "ServerFails",
            _ => "Unreachable",
        };
        NotReady::new(reason, &settings.cluster, status.message())
    }
}

#[cfg(test)]
mod racing;

#[cfg(test)]
mod tests {
    use atoll_client::connect_error::{self, Cause};

    use super::*;

    #[test]
    fn claim_must_match_the_registration() {
        let registration = ClusterRegistration {
            control_plane: "cp".into(),
            cluster: "u".into(),
            ..ClusterRegistration::default()
        };
        assert_eq!(
            check_claim(
                "east",
                &json!({"controlPlane": "cp", "cluster": "u", "workspace": "w"}),
                &registration
            ),
            Ok(())
        );
        for (data, words) in [
            (json!({"controlPlane": "other", "cluster": "u"}), "control plane other"),
            (json!({"controlPlane": "cp", "cluster": "v"}), "another Cluster of this control plane, uid v"),
            (json!({}), "control plane "),
            (Value::Null, "control plane "),
        ] {
            let problem = check_claim("east", &data, &registration).expect_err("the claim does not match");
            assert_eq!(problem.reason, "ClaimedByAnother");
            assert!(problem.message.contains(words), "{}", problem.message);
        }
    }

    #[test]
    fn each_failure_has_a_reason_and_advice() {
        let cut = |cause: Cause| connect_error::unavailable(cause, "why");
        let settings = Settings::new("east", "one", std::sync::Arc::new(|| 0));
        for (status, reason, words) in [
            (Status::unauthorized("no"), "CredentialsRefused", "atoll cluster join east --kubeconfig FILE"),
            (Status::forbidden("", "leases", "a", "no"), "PermissionsMissing", "atoll cluster join east"),
            (Status::too_many_requests("later", 1), "Overloaded", "/readyz"),
            (Status::service_unavailable("etcd"), "Overloaded", "(etcd)"),
            (Status::internal_error("oops"), "ServerFails", "oops"),
            (Status::timeout("slow", 1), "TimedOut", "firewall"),
            (Status::conflict("", "leases", "a", "no"), "HeldByAnother", "get lease atoll-syncer"),
            (cut(Cause::NameNotResolved), "NameNotResolved", "getent hosts"),
            (cut(Cause::ConnectionRefused), "ConnectionRefused", "(why)"),
            (cut(Cause::TimedOut), "TimedOut", "(why)"),
            (cut(Cause::CertificateExpired), "CertificateExpired", "certs renew"),
            (cut(Cause::CertificateNotYetValid), "CertificateNotYetValid", "clocks"),
            (cut(Cause::CertificateUntrusted), "CertificateUntrusted", "atoll cluster join east"),
            (cut(Cause::CertificateForAnotherName), "CertificateForAnotherName", "atoll cluster join east"),
            (cut(Cause::Unreachable), "Unreachable", "(why)"),
        ] {
            let problem = NotReady::of(&status, &settings);
            assert_eq!(problem.reason, reason);
            assert!(problem.message.contains(words), "{}", problem.message);
        }
        settings.expires.store(0, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(NotReady::of(&Status::unauthorized("no"), &settings).reason, "CredentialsExpired");
    }
}
