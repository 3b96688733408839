//! Reads the sync view: the desired state of the cluster, as a stream of lines.

use std::sync::Arc;
use std::time::Duration;

use atoll_client::Lines;
use atoll_fleet::view::Line;

use crate::core::Core;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(10);
/// Longest silence: the control plane sends a line every ten seconds.
const SILENCE: Duration = Duration::from_secs(35);
/// Timeout of the request for the view.
const PATIENCE: Duration = Duration::from_secs(30);

/// The control plane and Cluster that this syncer works for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Master {
    pub control_plane: String,
    /// Uid of the Cluster.
    pub cluster: String,
    /// Pinned uid of the cluster's namespace `kube-system`.
    pub identity: Option<String>,
    /// Id of the registering workspace.
    pub workspace: String,
    /// Whether the cluster is read-only.
    pub observe: bool,
}

/// Reads the view until it belongs to another control plane or Cluster, or the Cluster was deleted; then the
/// syncer restarts.
pub async fn follow(core: &Arc<Core>) {
    // The transport uses a separate connection for requests with this parameter.
    let path = format!("/services/sync/{}?watch=true", core.settings.cluster);
    let mut pause = FIRST_PAUSE;
    loop {
        match tokio::time::timeout(PATIENCE, core.above.lines(&path)).await {
            Ok(Ok(lines)) => match listen(core, lines).await {
                Heard::All => pause = FIRST_PAUSE,
                Heard::Little => {}
                Heard::Another => return,
            },
            // The Cluster was deleted: stop all work, including the renewal of the lease.
            Ok(Err(status)) if status.code() == 404 && core.control_plane().is_some() => return,
            Ok(Err(status)) => {
                tracing::debug!(%status, cluster = %core.settings.cluster, "cannot start the sync view");
            }
            Err(_) => tracing::debug!(cluster = %core.settings.cluster, "the request for the sync view timed out"),
        }
        tokio::time::sleep(core.settings.about(pause)).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// How a view ended.
enum Heard {
    /// After it was complete at least once.
    All,
    Little,
    /// It belongs to another registration.
    Another,
}

async fn listen(core: &Arc<Core>, mut lines: Lines) -> Heard {
    // Keep lines until the registration is known.
    let mut staged = Some(Vec::new());
    while let Ok(Some(raw)) = tokio::time::timeout(SILENCE, lines.next()).await {
        match Line::parse(&raw) {
            // Unknown lines of a newer control plane are ignored.
            None => tracing::debug!(cluster = %core.settings.cluster, "ignoring an unknown line of the sync view"),
            Some(Line::Alive) => {}
            Some(Line::Synced { control_plane, uid, workspace, id, observe, .. }) => {
                let identity = Some(id).filter(|id| !id.is_empty());
                let master = Master { control_plane, cluster: uid, identity, workspace, observe };
                if core.is_anothers(&master) {
                    return Heard::Another;
                }
                core.begin(master, staged.take());
            }
            Some(line) => match &mut staged {
                Some(staged) => staged.push(line),
                None => core.heed(line),
            },
        }
    }
    if staged.is_none() { Heard::All } else { Heard::Little }
}
