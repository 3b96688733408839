//! What is wanted, as the control plane tells it line by line.

use std::sync::Arc;
use std::time::Duration;

use atoll_client::Lines;
use atoll_fleet::view::Line;

use crate::core::Core;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(10);
/// The control plane says every ten seconds that it is alive; who has not for this long is not.
const SILENCE: Duration = Duration::from_secs(35);
/// A view that does not begin by then will not.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whose syncer this is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Master {
    pub control_plane: String,
    /// The uid of the Cluster.
    pub cluster: String,
    /// Which cluster it is, where that is pinned.
    pub identity: Option<String>,
    /// The id of the workspace of the Cluster.
    pub workspace: String,
    /// Whether the cluster is only to be looked at.
    pub observe: bool,
}

/// Follows the view until it turns out to be another control plane's, or another Cluster's, or that there is none any more:
/// then everything begins anew.
pub async fn follow(core: &Arc<Core>) {
    // Connections keep requests that last apart from others by this parameter.
    let path = format!("/services/sync/{}?watch=true", core.settings.cluster);
    let mut pause = FIRST_PAUSE;
    loop {
        match tokio::time::timeout(PATIENCE, core.above.lines(&path)).await {
            Ok(Ok(lines)) => match listen(core, lines).await {
                Heard::All => pause = FIRST_PAUSE,
                Heard::Little => {}
                Heard::Another => return,
            },
            // Nobody knows the Cluster: nothing is done for it, not even a claim kept up.
            Ok(Err(status)) if status.code() == 404 && core.control_plane().is_some() => return,
            Ok(Err(status)) => {
                tracing::debug!(%status, cluster = %core.settings.cluster, "the view does not begin");
            }
            Err(_) => tracing::debug!(cluster = %core.settings.cluster, "the view does not begin in time"),
        }
        tokio::time::sleep(core.settings.about(pause)).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// How a view ended.
enum Heard {
    /// After everything was said at least once.
    All,
    Little,
    /// It is not ours.
    Another,
}

async fn listen(core: &Arc<Core>, mut lines: Lines) -> Heard {
    // Until it is known who speaks nothing is believed.
    let mut staged = Some(Vec::new());
    while let Ok(Some(raw)) = tokio::time::timeout(SILENCE, lines.next()).await {
        match Line::parse(&raw) {
            // What a newer control plane says and we do not know is not for us.
            None => tracing::debug!(cluster = %core.settings.cluster, "a line that says nothing"),
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
