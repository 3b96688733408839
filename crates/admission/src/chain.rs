//! The admission chain: all plugins in upstream's order.

// upstream: pkg/kubeapiserver/options/plugins.go
// upstream: staging/src/k8s.io/apiserver/pkg/admission/chain.go

use std::time::Duration;

use atoll_meta::Status;
use atoll_registry::{Registry, WriteOutcome};
use atoll_store::Key;
use serde_json::Value;

use crate::certificates::{CertificateApproval, CertificateSigning, CertificateSubjectRestriction};
use crate::claim_resize::PersistentVolumeClaimResize;
use crate::cluster_intent::ClusterIntent;
use crate::default_classes::{DefaultIngressClass, DefaultStorageClass};
use crate::grain::Grain;
use crate::limit_ranger::LimitRanger;
use crate::namespace_lifecycle::NamespaceLifecycle;
use crate::pod_resize::{NodeDeclaredFeatureValidator, PodResizeValidator};
use crate::pod_security::PodSecurity;
use crate::policy_size::PolicySize;
use crate::priority::Priority;
use crate::resource_quota::ResourceQuota;
use crate::runtime_class::RuntimeClass;
use crate::service_account::ServiceAccount;
use crate::storage_protection::StorageObjectInUseProtection;
use crate::taint_nodes::TaintNodesByCondition;
use crate::tolerations::DefaultTolerationSeconds;
use crate::topology_labels::PodTopologyLabels;
use crate::{Plugin, Request, Reservation};

/// Time that a request waits for an object that is about to be created.
const WAIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Upstream's plugins in order, and whether they are enabled by default.
const KNOWN: [(&str, bool); 41] = [
    ("AlwaysAdmit", false),
    ("NamespaceAutoProvision", false),
    ("NamespaceLifecycle", true),
    ("NamespaceExists", false),
    ("LimitPodHardAntiAffinityTopology", false),
    ("LimitRanger", true),
    ("ServiceAccount", true),
    ("NodeRestriction", false),
    ("TaintNodesByCondition", true),
    ("AlwaysPullImages", false),
    ("ImagePolicyWebhook", false),
    ("PodSecurity", true),
    ("PodNodeSelector", false),
    ("Priority", true),
    ("DefaultTolerationSeconds", true),
    ("PodTolerationRestriction", false),
    ("EventRateLimit", false),
    ("ExtendedResourceToleration", false),
    ("DefaultStorageClass", true),
    ("StorageObjectInUseProtection", true),
    ("PodGroupProtection", true),
    ("OwnerReferencesPermissionEnforcement", false),
    ("PersistentVolumeClaimResize", true),
    ("RuntimeClass", true),
    ("CertificateApproval", true),
    ("CertificateSigning", true),
    ("ClusterTrustBundleAttest", true),
    ("CertificateSubjectRestriction", true),
    ("DefaultIngressClass", true),
    ("DenyServiceExternalIPs", false),
    ("PodTopologyLabels", true),
    ("PodGroupWorkloadExists", true),
    ("NodeDeclaredFeatureValidator", true),
    ("JobValidation", true),
    ("PodResizeValidator", true),
    ("MutatingAdmissionPolicy", true),
    ("MutatingAdmissionWebhook", true),
    ("ValidatingAdmissionPolicy", true),
    ("ValidatingAdmissionWebhook", true),
    ("ResourceQuota", true),
    ("AlwaysDeny", false),
];

/// Returns the plugin of a name. Some of upstream's default plugins are missing because they concern
/// resources that are not served by default.
fn plugin(name: &str) -> Option<Box<dyn Plugin>> {
    Some(match name {
        "NamespaceLifecycle" => Box::new(NamespaceLifecycle),
        "LimitRanger" => Box::new(LimitRanger),
        "ServiceAccount" => Box::new(ServiceAccount),
        "TaintNodesByCondition" => Box::new(TaintNodesByCondition),
        "PodSecurity" => Box::new(PodSecurity),
        "Priority" => Box::new(Priority),
        "DefaultTolerationSeconds" => Box::new(DefaultTolerationSeconds),
        "DefaultStorageClass" => Box::new(DefaultStorageClass),
        "StorageObjectInUseProtection" => Box::new(StorageObjectInUseProtection),
        "PersistentVolumeClaimResize" => Box::new(PersistentVolumeClaimResize),
        "RuntimeClass" => Box::new(RuntimeClass),
        "CertificateApproval" => Box::new(CertificateApproval),
        "CertificateSigning" => Box::new(CertificateSigning),
        "CertificateSubjectRestriction" => Box::new(CertificateSubjectRestriction),
        "DefaultIngressClass" => Box::new(DefaultIngressClass),
        "PodTopologyLabels" => Box::new(PodTopologyLabels),
        "NodeDeclaredFeatureValidator" => Box::new(NodeDeclaredFeatureValidator),
        "PodResizeValidator" => Box::new(PodResizeValidator),
        "ResourceQuota" => Box::<ResourceQuota>::default(),
        _ => return None,
    })
}

pub struct AdmissionChain {
    /// One of Atoll's own plugins, which run first.
    grain: Grain,
    plugins: Vec<Box<dyn Plugin>>,
}

impl Default for AdmissionChain {
    fn default() -> Self {
        let plugins = KNOWN.iter().filter(|(_, on)| *on).filter_map(|(name, _)| plugin(name)).collect();
        AdmissionChain { grain: Grain { pods_by_default: false }, plugins }
    }
}

impl AdmissionChain {
    /// Returns the default plugins plus `enabled` minus `disabled`. Unknown or unsupported names are errors.
    pub fn new(enabled: &[String], disabled: &[String]) -> Result<Self, String> {
        for (flag, names) in [("enable", enabled), ("disable", disabled)] {
            let unknown = names.iter().find(|name| KNOWN.iter().all(|(known, _)| known != name));
            if let Some(name) = unknown {
                return Err(format!("{flag}-admission-plugins plugin {name:?} is unknown"));
            }
        }
        let both: Vec<&str> =
            enabled.iter().filter(|name| disabled.contains(name)).map(|name| &**name).collect();
        if !both.is_empty() {
            return Err(format!(
                "[{}] in enable-admission-plugins and disable-admission-plugins overlapped",
                both.join(" ")
            ));
        }
        let is_on = |name: &str, default: bool| {
            let among = |names: &[String]| names.iter().any(|own| own == name);
            (default || among(enabled)) && !among(disabled)
        };
        let mut plugins = Vec::new();
        for (name, default) in KNOWN {
            match plugin(name) {
                Some(plugin) if is_on(name, default) => plugins.push(plugin),
                None if !default && is_on(name, default) => {
                    return Err(format!("enable-admission-plugins: Atoll does not have {name}"));
                }
                _ => {}
            }
        }
        Ok(AdmissionChain { grain: Grain { pods_by_default: false }, plugins })
    }

    /// By default, creates Pods in the control plane.
    pub fn with_pods_by_default(mut self) -> Self {
        self.grain.pods_by_default = true;
        self
    }

    fn plugins_for<'a>(&'a self, request: &'a Request<'_>) -> impl Iterator<Item = &'a dyn Plugin> {
        let own: [&dyn Plugin; 3] = [&self.grain, &PolicySize, &ClusterIntent];
        let plugins = own.into_iter().chain(self.plugins.iter().map(|plugin| &**plugin));
        plugins.filter(|plugin| plugin.handles(request))
    }

    pub async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<(), Status> {
        for plugin in self.plugins_for(request) {
            if let Some(key) = plugin.waits_for(request, object) {
                wait_for(request.registry, &key).await;
            }
            plugin.mutate(request, object)?;
        }
        // Mutating policies and webhooks belong here.
        Ok(())
    }

    /// Returns the reservations for the write, if it is admitted.
    pub async fn validate(
        &self,
        request: &Request<'_>,
        object: &Value,
    ) -> Result<Vec<Box<dyn Reservation>>, Status> {
        for plugin in self.plugins_for(request) {
            plugin.validate(request, object)?;
        }
        // Validating policies and webhooks belong here.
        let mut reservations = Vec::new();
        for plugin in self.plugins_for(request) {
            let Some(reserving) = plugin.reserve(request, object) else { continue };
            match reserving.await {
                Ok(reservation) => reservations.extend(reservation),
                Err(status) => {
                    for reservation in reservations {
                        reservation.finish(request.registry, WriteOutcome::NotWritten).await;
                    }
                    return Err(status);
                }
            }
        }
        Ok(reservations)
    }
}

/// Waits until an object exists, with a timeout.
async fn wait_for(registry: &Registry, key: &Key) {
    let appears = async {
        loop {
            let snapshot = registry.snapshot();
            if snapshot.get(key).is_some() {
                return;
            }
            registry.cache.wait_for(snapshot.revision + 1).await;
        }
    };
    // After a timeout, the plugin reports the missing object.
    let _ = tokio::time::timeout(WAIT_TIMEOUT, appears).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_plugins_are_refused() {
        let chain = |enabled: &str, disabled: &str| {
            let names = |text: &str| text.split_terminator(',').map(String::from).collect::<Vec<_>>();
            AdmissionChain::new(&names(enabled), &names(disabled)).map(|chain| chain.plugins.len())
        };
        let all = chain("", "").expect("the default");
        assert_eq!(all, AdmissionChain::default().plugins.len());
        assert_eq!(chain("NamespaceLifecycle", ""), Ok(all));
        assert_eq!(chain("", "RuntimeClass,ClusterTrustBundleAttest"), Ok(all - 1));
        let refused = [
            ("Nothing", "", "enable-admission-plugins plugin \"Nothing\" is unknown"),
            ("", "Nothing", "disable-admission-plugins plugin \"Nothing\" is unknown"),
            (
                "RuntimeClass",
                "RuntimeClass",
                "[RuntimeClass] in enable-admission-plugins and disable-admission-plugins overlapped",
            ),
            ("ImagePolicyWebhook", "", "enable-admission-plugins: Atoll does not have ImagePolicyWebhook"),
        ];
        for (enabled, disabled, message) in refused {
            assert_eq!(chain(enabled, disabled), Err(message.to_string()));
        }
    }
}
