//! Migrates the data of a control plane and loads it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use atoll_authn::authority::Authority;
use atoll_authz::Policies;
use atoll_controllers::catalog::ControllerSelection;
use atoll_registry::bootstrap::{self, BootstrapOptions};
use atoll_registry::placement::Placements;
use atoll_registry::usage::Usage;
use atoll_registry::{Clock, Decoder, Registry, SystemClock, custom_keys};
use atoll_store::Store;
use atoll_watch::{Cache, Observer};

use super::identity;
use super::settings::PlaneSettings;

pub struct LoadedRegistry {
    pub registry: Arc<Registry>,
    pub policies: Arc<Policies>,
}

/// Gives new data its identity, and brings the data of older versions into the current form.
pub async fn migrate(settings: &PlaneSettings, store: &Arc<dyn Store>) -> Result<(), String> {
    identity::ensure(store.as_ref()).await?;
    custom_keys::migrate(store)
        .await
        .map(drop)
        .map_err(|error| format!("the data in {} cannot be migrated: {error}", settings.directory.display()))
}

/// Loads all objects.
pub async fn load(
    settings: &PlaneSettings,
    store: Arc<dyn Store>,
    endpoint: SocketAddr,
    authority: &Authority,
) -> Result<LoadedRegistry, String> {
    let catalog = settings.shared.catalog.clone();
    let birth = BootstrapOptions {
        created: first_start(&settings.directory)?,
        endpoint,
        network: &settings.network,
        authority: &authority.certificate_pem,
        controller_objects: maintains_default_objects(&settings.controllers),
    };
    let layer = bootstrap::layer(&catalog, &birth);
    let limits = atoll_watch::Limits { bytes: settings.history_bytes };
    let policies = Arc::new(Policies::new(&layer));
    let placements = Arc::new(Placements::default());
    let decoder = Arc::new(Decoder { catalog: catalog.clone(), placements: placements.clone() });
    let usage = Arc::new(Usage::default());
    let observers: Vec<Arc<dyn Observer>> = vec![policies.clone(), placements.clone(), usage.clone()];
    let cache = Cache::open(store.as_ref(), decoder, layer, limits, observers).await;
    let cache = cache
        .map_err(|error| format!("the data in {} cannot be read: {error:?}", settings.directory.display()))?;
    let clock: Arc<dyn Clock> = match &settings.simulation {
        Some(simulation) => simulation.clock(),
        None => Arc::new(SystemClock),
    };
    let (network, naming) = (settings.network.clone(), tokio::sync::Mutex::default());
    let registry = Registry { store, cache, catalog, clock, network, naming, placements, usage };
    Ok(LoadedRegistry { registry: Arc::new(registry), policies })
}

/// Whether all controllers run that maintain the default objects of the bootstrap layer.
fn maintains_default_objects(choice: &ControllerSelection) -> bool {
    let controllers = ["serviceaccount", "root-ca-cert-publisher", "clusterrole-aggregation"];
    controllers.iter().all(|alias| choice.includes_alias(alias))
}

/// When this data directory was first used: the creation time of bootstrap objects.
fn first_start(directory: &Path) -> Result<i64, String> {
    let path = directory.join("ca.crt");
    let made = std::fs::metadata(&path).and_then(|metadata| metadata.modified());
    let made = made.map_err(|error| format!("{}: {error}", path.display()))?;
    let since = made.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(since.as_secs().cast_signed())
}
