//! Reads the sync view: the desired state of the cluster, as a stream of lines.

use std::sync::Arc;
use std::time::Duration;

use atoll_client::Lines;
use atoll_client::path::encoded;
use atoll_fleet::view::SyncLine;

use crate::syncer::Syncer;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(10);
/// Longest silence: the control plane sends a line every ten seconds.
const LONGEST_SILENCE: Duration = Duration::from_secs(35);
/// Timeout of the request for the view.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The control plane and Cluster that this syncer works for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterRegistration {
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
pub async fn run(syncer: &Arc<Syncer>) {
    // The transport uses a separate connection for requests with this parameter.
    let path = format!("/services/sync/{}?watch=true", encoded(&syncer.settings.cluster));
    let mut pause = FIRST_PAUSE;
    loop {
        match tokio::time::timeout(TIMEOUT, syncer.above.lines(&path)).await {
            Ok(Ok(lines)) => match read_lines(syncer, lines).await {
                StreamEnd::Complete => pause = FIRST_PAUSE,
                StreamEnd::Incomplete => {}
                StreamEnd::Replaced => return,
            },
            // The Cluster was deleted: stop all work, including the renewal of the lease.
            Ok(Err(status)) if status.code() == 404 && syncer.current_registration().is_some() => return,
            Ok(Err(status)) => {
                tracing::debug!(%status, cluster = %syncer.settings.cluster, "cannot start the sync view");
            }
            Err(_) => {
                tracing::debug!(cluster = %syncer.settings.cluster, "the request for the sync view timed out")
            }
        }
        tokio::time::sleep(syncer.settings.jitter(pause)).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// How a view ended.
enum StreamEnd {
    /// After it was complete at least once.
    Complete,
    Incomplete,
    /// It belongs to another registration.
    Replaced,
}

async fn read_lines(syncer: &Arc<Syncer>, mut lines: Lines) -> StreamEnd {
    // Keep lines until the registration is known.
    let mut staged = Some(Vec::new());
    while let Ok(Some(raw)) = tokio::time::timeout(LONGEST_SILENCE, lines.next()).await {
        match SyncLine::parse(&raw) {
            // Unknown lines of a newer control plane are ignored.
            None => {
                tracing::debug!(cluster = %syncer.settings.cluster, "ignoring an unknown line of the sync view")
            }
            Some(SyncLine::Alive) => {}
            Some(SyncLine::Synced { control_plane, uid, workspace, id, observe, .. }) => {
                let identity = Some(id).filter(|id| !id.is_empty());
                let registration =
                    ClusterRegistration { control_plane, cluster: uid, identity, workspace, observe };
                if syncer.is_other_registration(&registration) {
                    return StreamEnd::Replaced;
                }
                syncer.start_round(registration, staged.take());
            }
            Some(line) => match &mut staged {
                Some(staged) => staged.push(line),
                None => syncer.handle_line(line),
            },
        }
    }
    if staged.is_none() { StreamEnd::Complete } else { StreamEnd::Incomplete }
}
