//! Controllers of dialects: selected by name as all others, and limited to the API.

use std::pin::Pin;
use std::sync::Arc;

use atoll_client::dialing::TenantAddresses;
use atoll_informer::{ApiScope, Clock, Informers};
use atoll_registry::dialect::SharedDialect;
use tokio::task::JoinSet;

use crate::{EnabledWorkspaces, Registration, sealed_secrets};

pub type ControllerFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A controller of a dialect.
pub struct DialectController {
    /// The name for `--controllers`.
    pub name: &'static str,
    /// A short name, which is accepted as well.
    pub alias: &'static str,
    pub run: fn(ControllerContext) -> ControllerFuture,
}

/// Dependencies of a dialect's controller.
#[derive(Clone)]
pub struct ControllerContext {
    pub dialect: SharedDialect,
    /// Informers of all workspaces.
    pub informers: Arc<Informers>,
    pub clock: Arc<dyn Clock>,
    /// Address of the control plane, for messages.
    pub address: String,
    /// Allowed addresses of clusters of workspaces below root.
    pub tenants: Arc<TenantAddresses>,
    pub enabled: Arc<EnabledWorkspaces>,
}

impl ControllerContext {
    pub fn api(&self) -> &ApiScope {
        self.informers.api()
    }

    /// Whether the dialect is enabled in a workspace or in one above it.
    pub fn is_enabled(&self, workspace: &str) -> bool {
        self.enabled.contains(self.api(), workspace, self.dialect.name())
    }

    /// Whether the dialect is enabled in a workspace, or in one above or below it.
    pub fn is_enabled_in_line(&self, workspace: &str) -> bool {
        self.enabled.contains_in_line(self.api(), workspace, self.dialect.name())
    }
}

/// Runs the controllers of dialects that `is_selected` by name and alias, until it is dropped. Where any
/// controller of a dialect runs, the Secrets of its sealed fields are deleted once no object refers to them, and
/// `enabled` is kept up to date.
pub async fn run(
    dialects: Vec<Registration>,
    informers: Arc<Informers>,
    clock: Arc<dyn Clock>,
    address: String,
    tenants: Arc<TenantAddresses>,
    enabled: Arc<EnabledWorkspaces>,
    is_selected: impl Fn(&str, &str) -> bool,
) {
    let mut running = JoinSet::new();
    for Registration { dialect, controllers } in dialects {
        let context = ControllerContext {
            dialect,
            informers: informers.clone(),
            clock: clock.clone(),
            address: address.clone(),
            tenants: tenants.clone(),
            enabled: enabled.clone(),
        };
        let mut selected = controllers.iter().filter(|row| is_selected(row.name, row.alias)).peekable();
        if selected.peek().is_some() {
            running.spawn(sealed_secrets::run(context.clone()));
        }
        for controller in selected {
            running.spawn((controller.run)(context.clone()));
        }
    }
    if running.is_empty() {
        return;
    }
    let api = informers.api().clone();
    running.spawn(async move { enabled.watch(&api).await });
    while running.join_next().await.is_some() {}
}
