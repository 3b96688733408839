//! A watch that begins again whenever it ends.

use std::time::Duration;

use atoll_client::{Client, WatchEvent};

const PAUSE: Duration = Duration::from_secs(1);
/// Between looks for what is not served.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Hands on every event, and everything that is there each time the watch begins. Returns when the server stops.
pub async fn forever(client: &Client, path: &str, what: &str, mut heard: impl FnMut(WatchEvent)) {
    let mut pause = PAUSE;
    loop {
        let mut watch = match client.watch(path).await {
            Ok(watch) => watch,
            Err(status) if status.reason() == "NotFound" => {
                tracing::debug!("{what} are not served; waiting for them");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            Err(status) if status.reason() == "ServiceUnavailable" => return,
            Err(status) => {
                tracing::warn!(%status, "{what} cannot be watched; trying again");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        pause = PAUSE;
        while let Some(event) = watch.next().await {
            if let WatchEvent::Error(status) = event {
                tracing::warn!(%status, "the watch of {what} ended");
                break;
            }
            heard(event);
        }
    }
}
