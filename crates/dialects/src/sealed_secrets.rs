//! Deletes Secrets of sealed fields that no object refers to: the object was deleted, or the request that
//! created the Secret did not complete. Runs for every dialect with sealed fields.

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{ApiScope, Cache, DeleteOptions, Key, resources};
use atoll_meta::{Status, object, time};
use atoll_registry::dialect::SealedField;
use atoll_registry::dialect::sealing::LABEL;
use serde_json::Value;

use crate::ControllerContext;

/// Interval between collections.
const POLL_INTERVAL: Duration = Duration::from_secs(300);
/// Minimum age of a deleted Secret: the object that refers to it may not be stored yet.
const AGE_SECONDS: i64 = 300;

/// Runs the controller until it is dropped. Ends at once if the dialect has no sealed fields.
pub async fn run(context: ControllerContext) {
    let holders = Holders::of(&context);
    if holders.kinds.is_empty() {
        return;
    }
    for (_, cache) in &holders.kinds {
        cache.synced().await;
    }
    let dialect = context.dialect.name();
    loop {
        let now = context.clock.now().seconds;
        let is_referenced = |secret: &Value| holders.refer_to(secret);
        if let Err(status) = collect(context.api(), dialect, now, is_referenced).await {
            tracing::warn!(%status, dialect, "cannot delete unreferenced Secrets of sealed fields; will retry");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The objects with sealed fields, by field.
struct Holders {
    kinds: Vec<(SealedField, Arc<Cache>)>,
}

impl Holders {
    fn of(context: &ControllerContext) -> Holders {
        let definitions = context.dialect.definitions();
        let all: Vec<_> = definitions.iter().filter_map(crate::resources::of_definition).collect();
        let cache = |field: SealedField| {
            let is_holder = |group: &str, plural: &str| (group, plural) == (field.group, field.resource);
            let resource = all.iter().find(|resource| is_holder(&resource.group, &resource.plural))?;
            Some((field, context.informers.of(resource)))
        };
        Holders { kinds: context.dialect.sealed_fields().into_iter().filter_map(cache).collect() }
    }

    fn refer_to(&self, secret: &Value) -> bool {
        let at = Key::of(secret);
        self.kinds.iter().any(|(field, cache)| {
            let objects = cache.list(&at.workspace, "");
            objects.iter().any(|object| field.secret_name(object) == Some(&*at.name))
        })
    }
}

/// Deletes old Secrets without a reference. A failed deletion does not stop the others.
async fn collect(
    api: &ApiScope,
    dialect: &str,
    now: i64,
    is_referenced: impl Fn(&Value) -> bool,
) -> Result<(), Status> {
    let everywhere = api.everywhere(&resources::SECRETS);
    let path = format!("{everywhere}?labelSelector={}%3D{dialect}", LABEL.replace('/', "%2F"));
    let found = api.client().list_metadata(&path).await?;
    let mut outcome = Ok(());
    for secret in found["items"].as_array().into_iter().flatten() {
        if !is_old(secret, now) || is_referenced(secret) {
            continue;
        }
        let options = DeleteOptions { uid: Some(object::uid(secret)), ..DeleteOptions::default() };
        match api.delete(&resources::SECRETS, &Key::of(secret), options).await {
            Err(status) if status.reason() != "NotFound" => outcome = outcome.and(Err(status)),
            _ => {}
        }
    }
    outcome
}

fn is_old(secret: &Value, now: i64) -> bool {
    let created = object::creation_timestamp(secret).and_then(|text| time::parse(text).ok());
    created.is_some_and(|created| now.saturating_sub(created.seconds) > AGE_SECONDS)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
    use bytes::Bytes;
    use http::{Method, Request, Response};
    use http_body_util::{BodyExt, Full};
    use serde_json::json;

    use super::*;

    const MADE: &str = "2026-11-16T00:00:00Z";

    #[test]
    fn new_secrets_are_not_old() {
        let secret = json!({ "metadata": { "creationTimestamp": MADE } });
        let made = time::parse(MADE).unwrap().seconds;
        assert!(!is_old(&secret, made + 10) && is_old(&secret, made + 301) && !is_old(&json!({}), made));
    }

    /// A server with Secrets that refuses the first deletions.
    struct RefusingServer {
        secrets: Mutex<Vec<&'static str>>,
        refusals: Mutex<u32>,
    }

    impl Transport for RefusingServer {
        fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
            let mut secrets = self.secrets.lock().unwrap();
            let mut refusals = self.refusals.lock().unwrap();
            let (code, body) = match *request.method() {
                Method::DELETE if *refusals > 0 => {
                    *refusals -= 1;
                    (500, json!({ "kind": "Status", "code": 500, "reason": "InternalError" }))
                }
                Method::DELETE => {
                    secrets.retain(|name| !request.uri().path().ends_with(&format!("/{name}")));
                    (200, json!({ "kind": "Status", "status": "Success" }))
                }
                _ => {
                    let item = |name: &&str| json!({ "metadata": { "name": name, "namespace": "atoll-system", "creationTimestamp": MADE } });
                    (200, json!({ "kind": "List", "items": secrets.iter().map(item).collect::<Vec<_>>() }))
                }
            };
            let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
            let response = Response::builder().status(code).header("content-type", "application/json");
            Box::pin(async move { Ok(response.body(body.boxed_unsync())?) })
        }
    }

    #[tokio::test]
    async fn failed_deletions_are_retried() {
        let server = Arc::new(RefusingServer {
            secrets: Mutex::new(vec!["left", "named", "other"]),
            refusals: Mutex::new(1),
        });
        let api = ApiScope::single(Client::new(server.clone()));
        let remaining = || server.secrets.lock().unwrap().join(" ");
        let made = time::parse(MADE).unwrap().seconds;
        let is_referenced = |secret: &Value| object::name(secret) == "named";
        collect(&api, "kcp", made + 10, is_referenced).await.expect("there is nothing to do yet");
        assert_eq!(remaining(), "left named other");
        collect(&api, "kcp", made + 301, is_referenced).await.expect_err("one is refused");
        assert_eq!(remaining(), "left named", "the refused deletion does not stop the others");
        collect(&api, "kcp", made + 302, is_referenced).await.expect("nothing is refused any more");
        assert_eq!(remaining(), "named");
    }
}
