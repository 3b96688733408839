//! Creates the server of a control plane.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use atoll_scheduler::SchedulerHandle;
use atoll_server::metrics::Metrics;
use atoll_server::{AgentSigner, PodApi, Server};

use super::advisor::SchedulerAdvisor;
use super::key_material::KeyMaterial;
use super::kubelet_client::KubeletClient;
use super::registry::LoadedRegistry;
use super::settings::PlaneSettings;
use crate::sim::Meter;

/// Longest lifetime of the certificates of agents, which renew them.
const AGENT_CERTIFICATES: Duration = Duration::from_secs(30 * 86_400);

/// Creates the server. It takes the parts of the settings that cannot be shared.
pub fn create(
    settings: &mut PlaneSettings,
    loaded: LoadedRegistry,
    metrics: Metrics,
    advertised: SocketAddr,
    kubelet_client: &KubeletClient,
    keys: &KeyMaterial,
    scheduler: &SchedulerHandle,
) -> Arc<Server> {
    let mut server = Server::new(
        loaded.registry,
        loaded.policies,
        settings.limits.clone(),
        advertised.to_string(),
        metrics,
        settings.shared.discovery_cache.clone(),
        kubelet_client.kubelets.clone(),
    );
    server.authenticator = std::mem::take(&mut settings.authenticator);
    server.admission = std::mem::take(&mut settings.admission);
    server.tracer = settings.tracer.take();
    server.tokens = Some(keys.tokens.clone());
    let lifetime = settings.certificate_lifetime.min(AGENT_CERTIFICATES);
    let seconds = i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX);
    server.agents = Some(AgentSigner { authority: keys.workspaces.clone(), seconds });
    server.pod_api = Some(PodApi {
        advertised,
        authority_pem: keys.authority.certificate_pem.clone(),
        token_seconds: i64::try_from(settings.pod_token_lifetime.as_secs()).unwrap_or(i64::MAX),
    });
    if let Some(simulation) = &settings.simulation {
        server.endpoints.push(simulation.clone());
    }
    if let Some(listener) = kubelet_client.listener.as_ref().filter(|_| settings.metrics_api) {
        server.usage = Some(Arc::new(Meter::new(listener.measurements.clone())));
    }
    server.heartbeat = Some(settings.heartbeat());
    server.runs_controllers = settings.controllers.any();
    server.runs_scheduler =
        settings.simulation.is_none() && settings.controllers.includes_alias("placementscheduler");
    if server.runs_scheduler {
        server.advisor = Some(Arc::new(SchedulerAdvisor::new(scheduler.clone())));
    }
    server.runs_workloads = settings.simulation.is_some();
    Arc::new(server)
}
