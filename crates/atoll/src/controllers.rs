//! `atoll controllers`: the scheduler and other controllers outside of the server, over its API alone.

mod scheduler_lease;

use std::path::Path;
use std::sync::Arc;

use atoll_client::dialing::TenantAddresses;
use atoll_client::https::{Endpoint, Https};
use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
use atoll_controllers::Setup;
use atoll_controllers::context::{Signers, WorkloadScope};
use atoll_controllers::settings::Settings;
use atoll_dialects::EnabledWorkspaces;
use atoll_fleet::scheduled::CONTROLLERS_AGENT;
use atoll_informer::{ApiScope, Clock, Informers, SystemClock, Tree};
use atoll_scheduler::SchedulerHandle;
use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use serde_json::Value;

use self::scheduler_lease::SchedulerLease;
use crate::command::{Connection, ControllersOptions};
use crate::kubeconfig::Kubeconfig;
use crate::process::{self, ShutdownSignal};

/// The beginning of the path of a workspace in the address of a server.
const WORKSPACES: &str = "/clusters/";
/// The alias of the scheduler.
const SCHEDULER: &str = "placementscheduler";

pub fn run(options: ControllersOptions) -> Result<(), String> {
    process::run(&options.log, serve(&options))
}

async fn serve(options: &ControllersOptions) -> Result<(), String> {
    let only_in_server = options.controllers.only_in_server();
    if !only_in_server.is_empty() {
        let names = only_in_server.join(", ");
        return Err(format!(
            "{names}: only the server can run this, because it needs the server's keys or its connections to clusters; \
             see: atoll start --controllers"
        ));
    }
    let (client, origin) = connect(&options.kubeconfig)?;
    let stop = ShutdownSignal::listen()?;
    // The first request says what is wrong with the address or the credential.
    client.get("/clusters/*/apis/atoll.dev/v1alpha1/workspaces?limit=1").await.map_err(|status| {
        format!("{origin}: {status}; the user must be a member of system:masters of the control plane")
    })?;
    let lease = match options.controllers.includes_alias(SCHEDULER) {
        true => Some(take_lease(&client, &origin).await?),
        false => None,
    };
    println!("Running controllers of {origin}.");
    let keeping = async {
        if let Some(lease) = &lease {
            lease.keep().await;
        }
    };
    let running = async { tokio::join!(controllers(options, client, origin), keeping) };
    tokio::select! {
        ((), ()) = running => {}
        () = stop.received() => {}
    }
    if let Some(Err(status)) = async { Some(lease.as_ref()?.release().await) }.await {
        tracing::warn!(%status, "cannot give back the Lease of the scheduler; it ends within a minute");
    }
    Ok(())
}

/// Tells the server that a scheduler runs here.
async fn take_lease(client: &Client, origin: &str) -> Result<SchedulerLease, String> {
    let taken = SchedulerLease::take(client.clone()).await;
    taken.map_err(|status| format!("{origin}: cannot write the Lease of the scheduler: {status}"))
}

/// Adds the user agent to requests.
struct Named(Https);

impl Transport for Named {
    fn send(&self, mut request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(CONTROLLERS_AGENT));
        self.0.send(request)
    }
}

/// Connects to the control plane itself, whatever workspace the kubeconfig selects.
fn connect(path: &Path) -> Result<(Client, String), String> {
    let connection = Connection { kubeconfig: Some(path.to_path_buf()), context: None };
    let mut context = Kubeconfig::load(&connection)?.context()?;
    if let Some((origin, _)) = context.server.split_once(WORKSPACES) {
        context.server = origin.to_string();
    }
    let origin = context.server.clone();
    let problem = |problem: String| format!("{}: {problem}", path.display());
    let transport =
        Https::new(&Endpoint::of(context).map_err(problem)?).map_err(|error| problem(error.to_string()))?;
    Ok((Client::new(Arc::new(Named(transport))), origin))
}

async fn controllers(options: &ControllersOptions, client: Client, origin: String) {
    let tree = Arc::new(Tree::default());
    let informers = Informers::new(ApiScope::all_workspaces(client.clone(), tree.clone()));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let selection = &options.controllers;
    let is_selected = |name: &str, alias: &str| selection.includes(name, alias);
    let dialects = atoll_dialects::all();
    let has_dialects =
        dialects.iter().flat_map(|dialect| dialect.controllers).any(|row| is_selected(row.name, row.alias));
    let enabled = Arc::new(EnabledWorkspaces::default());
    let of_dialects = async {
        if has_dialects {
            let (informers, clock) = (informers.clone(), clock.clone());
            let tenants = Arc::new(TenantAddresses::default());
            atoll_dialects::run(dialects, informers, clock, origin, tenants, enabled.clone(), is_selected)
                .await;
        }
    };
    let scheduler = async {
        if !selection.includes_alias(SCHEDULER) {
            return;
        }
        if has_dialects {
            enabled.synced().await;
        }
        let (informers, clock, enabled) = (informers.clone(), clock.clone(), enabled.clone());
        let (api, dialects_changed) = (informers.api().clone(), enabled.subscribe());
        let dialects = Arc::new(move |workspace: &str, object: &Value| {
            atoll_dialects::named_clusters_in(&enabled, &api, workspace, object)
        });
        let handle = SchedulerHandle::default();
        let setup = atoll_scheduler::Setup { informers, clock, dialects, dialects_changed, handle };
        atoll_scheduler::run(setup).await;
    };
    let others = atoll_controllers::run(Setup {
        client,
        tree,
        informers: informers.clone(),
        // The keys of the control plane stay there: controllers that sign something must run in it.
        signers: Signers::default(),
        clock: clock.clone(),
        workloads: WorkloadScope::PodGrain,
        controllers: selection.clone(),
        settings: Settings::default(),
        intents: Arc::new(atoll_dialects::named_clusters),
    });
    tokio::join!(of_dialects, scheduler, others);
}
