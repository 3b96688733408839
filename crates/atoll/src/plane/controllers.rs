//! Starts the controllers of a control plane. A simulated cluster runs workloads itself and has no member
//! clusters, dialects or other workspaces.

use std::sync::Arc;

use atoll_client::Client;
use atoll_client::dialing::TenantAddresses;
use atoll_controllers::Setup;
use atoll_controllers::catalog::ControllerSelection;
use atoll_controllers::context::{Signers, WorkloadScope};
use atoll_controllers::settings::Settings as ControllerSettings;
use atoll_dialects::EnabledWorkspaces;
use atoll_informer::{ApiScope, Informers, Tree};
use atoll_registry::bootstrap;
use atoll_scheduler::SchedulerHandle;
use atoll_syncer::Push;
use serde_json::Value;

use super::key_material::KeyMaterial;
use super::settings::PlaneSettings;
use super::{ControlPlane, identity_lease};
use crate::sim::Simulation;

/// The API as the controllers see it.
pub struct ControllerApi {
    client: Client,
    tree: Arc<Tree>,
    pub informers: Arc<Informers>,
}

impl ControllerApi {
    pub fn new(client: Client, simulation: Option<&Arc<Simulation>>) -> ControllerApi {
        // A simulated cluster has only one workspace.
        let tree = Arc::new(Tree::default());
        let scope = match simulation {
            Some(_) => ApiScope::single(client.clone()),
            None => ApiScope::all_workspaces(client.clone(), tree.clone()),
        };
        ControllerApi { client, tree, informers: Informers::new(scope) }
    }
}

impl ControlPlane {
    /// Starts syncers of clusters in push mode, the identity Lease, the controllers of dialects and the scheduler.
    pub(super) fn start_fleet(
        &mut self,
        settings: &PlaneSettings,
        tenants: Arc<TenantAddresses>,
        scheduler: SchedulerHandle,
    ) {
        if self.simulation.is_some() {
            return;
        }
        if settings.controllers.includes_alias("clusterpush") {
            let (informers, clock) = (self.informers.clone(), self.clock());
            let budgets = self.server.metrics.clusters.clone();
            self.run(atoll_syncer::push(Push {
                informers,
                clock,
                random: crate::syncer::random(),
                interval: settings.heartbeat(),
                budgets,
                connected: self.server.connected_clusters.clone(),
                root: bootstrap::ROOT.into(),
                tenants: tenants.clone(),
            }));
        }
        if settings.identity_lease {
            self.run(identity_lease::run(self.server.registry.clone()));
        }
        let enabled = Arc::new(EnabledWorkspaces::default());
        self.start_dialects(settings.controllers.clone(), tenants, enabled.clone());
        if settings.controllers.includes_alias("placementscheduler") {
            self.start_scheduler(&settings.controllers, enabled, scheduler);
        }
    }

    /// Starts the scheduler. It leaves objects alone that a dialect places.
    fn start_scheduler(
        &mut self,
        selection: &ControllerSelection,
        enabled: Arc<EnabledWorkspaces>,
        handle: SchedulerHandle,
    ) {
        let (informers, clock) = (self.informers.clone(), self.clock());
        let dialects = atoll_dialects::all();
        let mut controllers = dialects.iter().flat_map(|dialect| dialect.controllers);
        let has_dialects = controllers.any(|row| selection.includes(row.name, row.alias));
        self.run(async move {
            if has_dialects {
                enabled.synced().await;
            }
            let (api, dialects_changed) = (informers.api().clone(), enabled.subscribe());
            let dialects = move |workspace: &str, object: &Value| {
                atoll_dialects::named_clusters_in(&enabled, &api, workspace, object)
            };
            let dialects = Arc::new(dialects);
            let setup = atoll_scheduler::Setup { informers, clock, dialects, dialects_changed, handle };
            atoll_scheduler::run(setup).await;
        });
    }

    fn start_dialects(
        &mut self,
        selection: ControllerSelection,
        tenants: Arc<TenantAddresses>,
        enabled: Arc<EnabledWorkspaces>,
    ) {
        let (informers, clock) = (self.informers.clone(), self.clock());
        let address = format!("https://{}", self.advertised);
        self.run(async move {
            let is_selected = |name: &str, alias: &str| selection.includes(name, alias);
            let dialects = atoll_dialects::all();
            atoll_dialects::run(dialects, informers, clock, address, tenants, enabled, is_selected).await;
        });
    }

    /// Starts the selected controllers.
    pub(super) fn start_controllers(
        &mut self,
        settings: PlaneSettings,
        api: ControllerApi,
        keys: KeyMaterial,
    ) {
        if !settings.controllers.any() {
            return;
        }
        let workloads = match self.simulation {
            Some(_) => WorkloadScope::All,
            None => WorkloadScope::PodGrain,
        };
        let clock = self.clock();
        self.run(atoll_controllers::run(Setup {
            client: api.client,
            tree: api.tree,
            informers: api.informers,
            signers: Signers {
                kubelets: Some(keys.kubelets),
                workspaces: Some(keys.workspaces),
                ..Signers::of(keys.authority, keys.tokens)
            },
            clock,
            workloads,
            controllers: settings.controllers,
            settings: ControllerSettings {
                advertised: Some(self.advertised),
                ..settings.controller_settings
            },
            intents: Arc::new(atoll_dialects::named_clusters),
        }));
    }
}
