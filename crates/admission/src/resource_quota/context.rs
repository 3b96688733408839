//! The objects that quota evaluation needs, from a snapshot.

use atoll_meta::json;
use atoll_quota::QuotaLookup;
use atoll_registry::Registry;
use atoll_store::Key;
use atoll_watch::{Scope, Snapshot};
use serde_json::Value;

/// Maximum number of bytes of claims that are read for one request. Which of many claims belongs to a Pod is not
/// known then, and its devices are counted once for each.
const MAX_CLAIMS: usize = 1 << 20;

pub struct QuotaContext<'a> {
    pub registry: &'a Registry,
    pub snapshot: &'a Snapshot,
    pub workspace: &'a str,
}

impl QuotaContext<'_> {
    pub fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Value> {
        let scope = Scope::new(group, resource, Some(self.workspace), Some(namespace));
        let objects = self.snapshot.list(&scope, None);
        objects.filter_map(|object| json::parse(&object.json()).ok()).map(|parsed| parsed.value).collect()
    }
}

impl QuotaLookup for QuotaContext<'_> {
    fn now(&self) -> i64 {
        self.registry.clock.seconds()
    }

    fn device_classes(&self) -> Vec<Value> {
        self.list("resource.k8s.io", "deviceclasses", "")
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Value> {
        let found = self.snapshot.get(&Key::object("", "pods", self.workspace, namespace, name))?;
        json::parse(&found.json()).ok().map(|parsed| parsed.value)
    }

    fn device_claims(&self, namespace: &str) -> Vec<Value> {
        let scope = Scope::new("resource.k8s.io", "resourceclaims", Some(self.workspace), Some(namespace));
        let mut size = 0;
        let few = self.snapshot.list(&scope, None).take_while(|claim| {
            size += claim.size();
            size <= MAX_CLAIMS
        });
        few.filter_map(|object| json::parse(&object.json()).ok()).map(|parsed| parsed.value).collect()
    }
}
