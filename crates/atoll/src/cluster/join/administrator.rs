//! Access to a cluster with the kubeconfig file of its administrator.

use std::path::Path;

use atoll_joining::JoiningCluster;

use crate::advice::Failure;
use crate::command::Connection;
use crate::kubeconfig::Kubeconfig;
use crate::process::{quoted, quoted_path};

/// Opens a cluster with a kubeconfig file, and with the credential plugin that it may name.
pub fn open(kubeconfig: &Path, context: Option<&str>) -> Result<JoiningCluster, Failure> {
    let connection = Connection { kubeconfig: Some(kubeconfig.into()), context: context.map(str::to_string) };
    let mut config = Kubeconfig::load(&connection).map_err(|failure| match kubeconfig.exists() {
        true => failure,
        false => Failure::new(failure.message, "name the kubeconfig of the cluster"),
    })?;
    let mut kubectl = format!("kubectl --kubeconfig {}", quoted_path(kubeconfig));
    if let Some(context) = context {
        kubectl.push_str(&format!(" --context {}", quoted(context)));
    }
    JoiningCluster::with_context(config.context_with_exec()?, kubectl)
}
