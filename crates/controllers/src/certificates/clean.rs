//! Deletes, now and every hour, requests that nobody needs any more.

use std::time::Duration;

use atoll_informer::{DeleteOptions, Key, resources};
use atoll_meta::{Status, object};

use super::age;
use crate::context::Context;

/// How often old requests are looked for.
const CLEANING: Duration = Duration::from_secs(3600);
/// When they could not be looked for.
const SOON: Duration = Duration::from_secs(60);
/// Objects for each page of a list.
const PAGE: usize = 500;

pub async fn run(context: Context) {
    loop {
        let pause = match clean(&context).await {
            Ok(()) => CLEANING,
            Err(status) => {
                tracing::debug!(%status, "old requests for certificates cannot be looked for");
                SOON
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn clean(context: &Context) -> Result<(), Status> {
    let (world, requests) = (context.world(), &resources::CERTIFICATE_SIGNING_REQUESTS);
    let (path, mut token) = (world.everywhere(requests), String::new());
    loop {
        let page = world.client().get(&format!("{path}?limit={PAGE}&continue={token}")).await?;
        for request in page["items"].as_array().into_iter().flatten() {
            if !age::is_past(request, context.clock.now().seconds) {
                continue;
            }
            let (key, uid) = (Key::of(request), object::uid(request));
            let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
            if let Err(status) = world.delete(requests, &key, options).await {
                tracing::debug!(%status, %key, "an old request for a certificate is still there");
            }
        }
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_string();
        if token.is_empty() {
            return Ok(());
        }
    }
}
