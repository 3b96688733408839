//! Secrets of kubeconfigs that no Cluster names: whoever made them came to no end.

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{DeleteOptions, Key, resources};
use atoll_meta::{Status, object, time};
use atoll_registry::dialect::{kcp, seal};
use serde_json::Value;

use super::Dialect;

/// How often they are looked for.
const PAUSE: Duration = Duration::from_secs(300);
/// How old they must be: until then somebody may be about to name them.
const AGE_SECONDS: i64 = 300;

pub(super) async fn run(dialect: Arc<Dialect>) {
    loop {
        if let Err(status) = dialect.sweep().await {
            tracing::warn!(%status, "Secrets of kubeconfigs that nobody needs could not be looked for");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Dialect {
    async fn sweep(&self) -> Result<(), Status> {
        let everywhere = self.world().everywhere(&resources::SECRETS);
        let path = format!("{everywhere}?labelSelector={}%3D{}", seal::LABEL.replace('/', "%2F"), kcp::NAME);
        let found = self.world().client().list_metadata(&path).await?;
        let now = self.setup.clock.now().seconds;
        for secret in found["items"].as_array().into_iter().flatten() {
            if !is_old(secret, now) || self.is_named(secret) {
                continue;
            }
            let options = DeleteOptions { uid: Some(object::uid(secret)), ..DeleteOptions::default() };
            let gone = self.world().delete(&resources::SECRETS, &Key::of(secret), options).await;
            super::absent(gone)?;
        }
        Ok(())
    }

    fn is_named(&self, secret: &Value) -> bool {
        let at = Key::of(secret);
        self.kcp
            .iter()
            .flat_map(|cache| cache.list(&at.workspace, ""))
            .any(|cluster| seal::secret(&cluster) == Some(&*at.name))
    }
}

fn is_old(secret: &Value, now: i64) -> bool {
    let created = object::creation_timestamp(secret).and_then(|text| time::parse(text).ok());
    created.is_some_and(|created| now.saturating_sub(created.seconds) > AGE_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn somebody_may_be_about_to_name_what_is_new() {
        let secret = json!({ "metadata": { "creationTimestamp": "2026-11-16T00:00:00Z" } });
        let made = time::parse("2026-11-16T00:00:00Z").unwrap().seconds;
        assert!(!is_old(&secret, made + 10) && is_old(&secret, made + 301) && !is_old(&json!({}), made));
    }
}
