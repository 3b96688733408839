//! Deletes obsolete certificate signing requests at the start and every hour.

// upstream: pkg/controller/certificates/cleaner/cleaner.go

use std::time::Duration;

use atoll_informer::{DeleteOptions, Key, encoded, resources};
use atoll_meta::{Status, object};

use super::age;
use crate::context::Context;

/// Interval between cleanups.
const INTERVAL: Duration = Duration::from_secs(3600);
/// Delay before the next attempt after a failed list request.
const RETRY_DELAY: Duration = Duration::from_secs(60);
/// Page size of list requests.
const PAGE_SIZE: usize = 500;

pub async fn run(context: Context) {
    loop {
        let pause = match clean(&context).await {
            Ok(()) => INTERVAL,
            Err(status) => {
                tracing::debug!(%status, "listing certificate signing requests failed");
                RETRY_DELAY
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn clean(context: &Context) -> Result<(), Status> {
    let (api, requests) = (context.api(), &resources::CERTIFICATE_SIGNING_REQUESTS);
    let (path, mut token) = (api.everywhere(requests), String::new());
    loop {
        let page =
            api.client().get(&format!("{path}?limit={PAGE_SIZE}&continue={}", encoded(&token))).await?;
        for request in page["items"].as_array().into_iter().flatten() {
            if !age::is_obsolete(request, context.clock.now().seconds) {
                continue;
            }
            let (key, uid) = (Key::of(request), object::uid(request));
            let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
            if let Err(status) = api.delete(requests, &key, options).await {
                tracing::debug!(%status, %key, "deleting an obsolete certificate signing request failed");
            }
        }
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_string();
        if token.is_empty() {
            return Ok(());
        }
    }
}
