//! A watch that begins again whenever it ends.

use std::time::Duration;

use atoll_client::{Client, WatchEvent};

const PAUSE: Duration = Duration::from_secs(1);

/// Hands on every event, and everything that is there each time the watch begins. Returns when the server stops.
pub async fn forever(client: &Client, path: &str, what: &str, mut heard: impl FnMut(WatchEvent)) {
    loop {
        let mut watch = match client.watch(path).await {
            Ok(watch) => watch,
            Err(status) if status.reason() == "ServiceUnavailable" => return,
            Err(status) => {
                tracing::warn!(%status, "{what} cannot be watched; trying again");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        while let Some(event) = watch.next().await {
            if let WatchEvent::Error(status) = event {
                tracing::warn!(%status, "the watch of {what} ended");
                break;
            }
            heard(event);
        }
    }
}
