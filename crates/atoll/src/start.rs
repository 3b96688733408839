//! `atoll start`: runs a control plane.

use std::path::Path;
use std::time::Duration;

use atoll_authn::Authenticator;
use atoll_authn::token_file::TokenFile;
use atoll_controllers::settings::Settings as ControllerSettings;
use atoll_registry::{Network, Profile};
use atoll_server::trace::Tracer;
use atoll_server::{AdmissionChain, Limits};

use crate::command::{FleetSettings, Grain, ProfileName, StartOptions};
use crate::open_files;
use crate::plane::{ControlPlane, PlaneSettings, SharedCatalog, StorageMode};
use crate::process::{self, ShutdownSignal, quoted_path};

pub fn run(options: StartOptions) -> Result<(), String> {
    process::run(&options.log, serve(&options))
}

async fn serve(options: &StartOptions) -> Result<(), String> {
    let plane = ControlPlane::start(settings(options)?).await?;
    let stop = ShutdownSignal::listen()?;
    println!(
        "Atoll is ready at https://{}. Try: kubectl --kubeconfig {} get namespaces",
        plane.advertised,
        quoted_path(&plane.kubeconfig)
    );
    stop.received().await;
    tracing::info!("stopping: waiting for requests to finish");
    plane.stop().await
}

fn settings(options: &StartOptions) -> Result<PlaneSettings, String> {
    let profile = match options.profile {
        ProfileName::Full => Profile::Full,
        ProfileName::Minimal => Profile::Minimal,
    };
    let ranges = options.service_cluster_ip_range.clone();
    let network = Network::new(ranges, options.service_node_port_range)
        .map_err(|error| format!("--service-cluster-ip-range: {error}"))?;
    let (controller_settings, cluster_heartbeat) = fleet(&options.fleet)?;
    Ok(PlaneSettings {
        controller_settings,
        cluster_heartbeat,
        storage: StorageMode::Durable,
        listen: options.listen,
        advertise: options.advertise_address,
        network,
        admission: admission(options)?,
        authenticator: authenticator(options.token_auth_file.as_deref())?,
        limits: limits(options),
        tracer: options.otlp_endpoint.as_deref().map(Tracer::start).transpose()?,
        encryption: options.encryption_provider_config.clone(),
        issuer: options.service_account_issuer.clone(),
        key_days: options.service_account_key_days,
        certificate_lifetime: Duration::from_secs(options.certificate_lifetime.into()),
        pod_token_lifetime: Duration::from_secs(options.pod_token_lifetime.into()),
        history: Duration::from_secs(options.history),
        history_bytes: options.history_size << 20,
        controllers: options.controllers.clone(),
        identity_lease: options.identity_lease,
        kubelets: options.kubelets.clone(),
        allow_tenant_addresses: options.allow_tenant_addresses,
        ..PlaneSettings::new("atoll", &options.data_dir, SharedCatalog::new(profile))?
    })
}

/// The controllers' settings and the interval of heartbeats.
fn fleet(options: &FleetSettings) -> Result<(ControllerSettings, Option<Duration>), String> {
    let grace = options.cluster_grace_period;
    let interval = options.cluster_heartbeat_interval;
    if let Some(interval) = interval.filter(|interval| interval * 2 > grace) {
        return Err(format!(
            "--cluster-heartbeat-interval {interval}: more than half of --cluster-grace-period ({grace}): a single late \
             heartbeat would make a cluster not ready"
        ));
    }
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let controller_settings = ControllerSettings {
        cluster_grace_period: seconds(grace),
        horizontal_pod_autoscaler_sync_period: options.horizontal_pod_autoscaler_sync_period,
        ..ControllerSettings::default()
    };
    Ok((controller_settings, interval.map(seconds)))
}

/// The authenticator of static tokens, if there is a file of them.
pub fn authenticator(file: Option<&Path>) -> Result<Authenticator, String> {
    let Some(path) = file else { return Ok(Authenticator::default()) };
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let tokens: TokenFile = text.parse().map_err(|error| format!("{}: {error}", path.display()))?;
    for remark in &tokens.warnings {
        tracing::warn!("{}: {remark}", path.display());
    }
    Ok(Authenticator { tokens })
}

fn limits(options: &StartOptions) -> Limits {
    Limits {
        request_timeout: Duration::from_secs(options.request_timeout),
        header_timeout: Duration::from_secs(options.header_timeout),
        reading: options.max_requests_inflight,
        mutating: options.max_mutating_requests_inflight,
        watching: options.max_watches,
        connections: open_files::max_connections(),
        drain: Duration::from_secs(options.shutdown_timeout),
    }
}

fn admission(options: &StartOptions) -> Result<AdmissionChain, String> {
    let chain = AdmissionChain::new(&options.enable_admission_plugins, &options.disable_admission_plugins)?;
    Ok(match options.grain {
        Grain::Object => chain,
        Grain::Pod => chain.with_pods_by_default(),
    })
}
