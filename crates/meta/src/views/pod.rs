//! Pods, their containers and volumes.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{ConditionView, TolerationView, condition, conditions, items, text};
use crate::object;

crate::view! {
    /// A Pod.
    PodView
}

crate::view! {
    /// The spec of a Pod, or of the template of a workload.
    PodSpecView
}

crate::view! {
    /// A container of a Pod.
    ContainerView
}

crate::view! {
    /// The status of a container.
    ContainerStatusView
}

crate::view! {
    /// A volume of a Pod.
    VolumeView
}

impl<'a> PodView<'a> {
    pub fn spec(self) -> PodSpecView<'a> {
        PodSpecView(&self.0["spec"])
    }

    /// Returns the node that the Pod is bound to.
    pub fn node_name(self) -> Option<&'a str> {
        self.spec().node_name()
    }

    /// Returns the phase; empty before the Pod is stored.
    pub fn phase(self) -> &'a str {
        self.0["status"]["phase"].as_str().unwrap_or_default()
    }

    /// Whether all containers have ended and will not be restarted.
    pub fn is_finished(self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    /// Returns the reason of the phase.
    pub fn reason(self) -> Option<&'a str> {
        text(&self.0["status"]["reason"])
    }

    pub fn start_time(self) -> Option<&'a str> {
        text(&self.0["status"]["startTime"])
    }

    /// Returns the node where preemption makes room for the Pod.
    pub fn nominated_node_name(self) -> Option<&'a str> {
        text(&self.0["status"]["nominatedNodeName"])
    }

    pub fn conditions(self) -> impl Iterator<Item = ConditionView<'a>> {
        conditions(self.0)
    }

    pub fn condition(self, kind: &str) -> Option<ConditionView<'a>> {
        condition(self.0, kind)
    }

    pub fn is_ready(self) -> bool {
        self.condition("Ready").is_some_and(ConditionView::is_true)
    }

    /// Returns the address of the first IP family.
    pub fn pod_ip(self) -> Option<&'a str> {
        text(&self.0["status"]["podIP"])
    }

    /// Returns the addresses of all IP families.
    pub fn pod_ips(self) -> impl Iterator<Item = &'a str> {
        items(&self.0["status"]["podIPs"]).iter().filter_map(|address| address["ip"].as_str())
    }

    pub fn has_pod_ip(self) -> bool {
        self.pod_ip().is_some() || !items(&self.0["status"]["podIPs"]).is_empty()
    }

    pub fn container_statuses(self) -> impl Iterator<Item = ContainerStatusView<'a>> {
        items(&self.0["status"]["containerStatuses"]).iter().map(ContainerStatusView)
    }

    pub fn init_container_statuses(self) -> impl Iterator<Item = ContainerStatusView<'a>> {
        items(&self.0["status"]["initContainerStatuses"]).iter().map(ContainerStatusView)
    }

    pub fn sidecar_statuses(self) -> impl Iterator<Item = ContainerStatusView<'a>> {
        self.init_container_statuses()
            .filter(move |status| self.spec().sidecars().any(|container| container.name() == status.name()))
    }

    /// Returns the names of the volume claims that the Pod uses.
    pub fn claim_names(self) -> impl Iterator<Item = Cow<'a, str>> {
        self.spec().volumes().filter_map(move |volume| volume.claim_name(object::name(self.0)))
    }
}

impl<'a> PodSpecView<'a> {
    pub fn node_name(self) -> Option<&'a str> {
        text(&self.0["nodeName"])
    }

    pub fn hostname(self) -> Option<&'a str> {
        text(&self.0["hostname"])
    }

    pub fn subdomain(self) -> Option<&'a str> {
        text(&self.0["subdomain"])
    }

    pub fn uses_host_network(self) -> bool {
        self.0["hostNetwork"] == true
    }

    /// Returns the restart policy; the default is `Always`.
    pub fn restart_policy(self) -> &'a str {
        text(&self.0["restartPolicy"]).unwrap_or("Always")
    }

    /// Returns the labels that the node must have.
    pub fn node_selector(self) -> Option<&'a Map<String, Value>> {
        self.0["nodeSelector"].as_object()
    }

    /// Returns the terms of the required node affinity, one of which must match; `None` without one.
    pub fn required_node_terms(self) -> Option<&'a [Value]> {
        let required = &self.0["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        (!required.is_null()).then(|| items(&required["nodeSelectorTerms"]))
    }

    pub fn tolerations(self) -> impl Iterator<Item = TolerationView<'a>> + Clone {
        items(&self.0["tolerations"]).iter().map(TolerationView::of)
    }

    pub fn containers(self) -> impl Iterator<Item = ContainerView<'a>> {
        items(&self.0["containers"]).iter().map(ContainerView)
    }

    pub fn init_containers(self) -> impl Iterator<Item = ContainerView<'a>> {
        items(&self.0["initContainers"]).iter().map(ContainerView)
    }

    /// Returns the init containers that keep running beside the others.
    pub fn sidecars(self) -> impl Iterator<Item = ContainerView<'a>> {
        self.init_containers().filter(|container| container.is_sidecar())
    }

    pub fn volumes(self) -> impl DoubleEndedIterator<Item = VolumeView<'a>> {
        items(&self.0["volumes"]).iter().map(VolumeView)
    }

    /// Returns the requests of the whole Pod, which replace those of its containers.
    pub fn requests(self) -> Option<&'a Map<String, Value>> {
        self.0["resources"]["requests"].as_object()
    }
}

impl<'a> ContainerView<'a> {
    pub fn name(self) -> &'a str {
        self.0["name"].as_str().unwrap_or_default()
    }

    /// Whether an init container keeps running beside the others.
    pub fn is_sidecar(self) -> bool {
        self.0["restartPolicy"] == "Always"
    }

    pub fn ports(self) -> &'a [Value] {
        items(&self.0["ports"])
    }

    /// Returns the requested amounts by resource.
    pub fn requests(self) -> &'a Value {
        &self.0["resources"]["requests"]
    }
}

impl<'a> ContainerStatusView<'a> {
    pub fn name(self) -> &'a str {
        self.0["name"].as_str().unwrap_or_default()
    }

    pub fn restart_count(self) -> i64 {
        self.0["restartCount"].as_i64().unwrap_or(0)
    }

    /// Returns the exit code of a container that has ended.
    pub fn exit_code(self) -> Option<i64> {
        self.0["state"]["terminated"]["exitCode"].as_i64()
    }

    /// Returns the time when the container ended.
    pub fn finished_at(self) -> Option<&'a str> {
        text(&self.0["state"]["terminated"]["finishedAt"])
    }
}

impl<'a> VolumeView<'a> {
    pub fn name(self) -> &'a str {
        self.0["name"].as_str().unwrap_or_default()
    }

    /// Whether a volume claim is created for the volume of this Pod only.
    pub fn is_ephemeral(self) -> bool {
        !self.0["ephemeral"].is_null()
    }

    /// Returns the volume claim that the volume names.
    pub fn named_claim(self) -> Option<&'a str> {
        self.0["persistentVolumeClaim"]["claimName"].as_str()
    }

    /// Returns the name of the volume claim. That of an ephemeral volume is derived from its Pod.
    pub fn claim_name(self, pod: &str) -> Option<Cow<'a, str>> {
        match self.is_ephemeral() {
            true => Some(format!("{pod}-{}", self.0["name"].as_str()?).into()),
            false => self.named_claim().map(Cow::Borrowed),
        }
    }
}

#[cfg(test)]
mod tests;
