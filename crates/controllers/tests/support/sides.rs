//! The two sides of a comparison: the real kube-controller-manager and Atoll's controllers, at any server.

use std::path::Path;
use std::sync::Arc;

use atoll_client::https::Https;
use atoll_controllers::context::{Context, WorkloadScope};
use atoll_controllers::settings::Settings;
use atoll_informer::{ApiScope, SystemClock};
use atoll_testkit::{Client, Program, Programs};
use tokio::task::JoinHandle;

const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// Returns the programs; `None`, with a message, if Go is not installed.
pub fn controller_manager() -> Option<Programs> {
    Programs::build(&[CONTROLLER_MANAGER])
}

/// Runs kube-controller-manager with these controllers until it is dropped.
pub fn start_kube_controller_manager(
    programs: &Programs,
    kubeconfig: &Path,
    controllers: &str,
    more: &[String],
    log: &Path,
) -> Program {
    let mut arguments = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={controllers}"),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=1000".to_owned(),
    ];
    arguments.extend_from_slice(more);
    programs.start(CONTROLLER_MANAGER, &arguments, log)
}

/// Atoll's controllers, while they run.
pub struct AtollControllers(JoinHandle<()>);

impl AtollControllers {
    pub fn start(user: &Client, controllers: &str, settings: Settings) -> AtollControllers {
        let client = atoll_client::Client::new(Arc::new(Https::new(user.endpoint()).expect("a client")));
        let context = Context::new(ApiScope::single(client), Arc::new(SystemClock), WorkloadScope::All);
        let selection = controllers.parse().expect("controllers");
        AtollControllers(tokio::spawn(async move {
            atoll_controllers::run_selected(context.with_settings(settings), &selection).await;
        }))
    }
}

impl Drop for AtollControllers {
    fn drop(&mut self) {
        self.0.abort();
    }
}
