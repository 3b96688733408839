//! Open sync views, and the memory that they need.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_meta::Status;
use atoll_registry::bootstrap::ROOT;

use crate::Server;

/// Maximum number of open views of a cluster. A syncer needs one; after a broken connection the server may not
/// have noticed yet that the old one is gone.
const MAX_VIEWS: usize = 8;
/// Maximum number of objects that the views of one tenant remember, about 600 bytes each. Clusters of root are
/// registered by administrators and have no limit.
const MAX_OBJECTS: usize = 500_000;

/// The open sync views of all clusters.
#[derive(Default)]
pub struct OpenViews {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Number of views, by workspace and cluster.
    views: HashMap<(String, String), usize>,
    /// Number of objects that the views of a tenant remember.
    objects: HashMap<String, usize>,
}

/// An open view, until it is dropped.
pub struct OpenView {
    server: Arc<Server>,
    /// The workspace and the name of the cluster.
    cluster: (String, String),
    tenant: String,
    objects: usize,
}

impl OpenViews {
    pub fn has(&self, workspace: &str, cluster: &str) -> bool {
        self.counts().views.contains_key(&(workspace.to_string(), cluster.to_string()))
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Counts another view, unless there are too many.
    fn open(&mut self, cluster: &(String, String)) -> bool {
        let views = self.views.entry(cluster.clone()).or_default();
        let is_open = *views < MAX_VIEWS;
        *views += usize::from(is_open);
        is_open
    }

    fn close(&mut self, cluster: &(String, String)) {
        if let Some(views) = self.views.get_mut(cluster) {
            *views = views.saturating_sub(1);
            if *views == 0 {
                self.views.remove(cluster);
            }
        }
    }

    /// Changes the number of objects of one view. Returns whether the tenant's views may remember that many.
    fn track(&mut self, tenant: &str, old: usize, new: usize) -> bool {
        let total = self.objects.get(tenant).map_or(0, |total| total.saturating_sub(old)) + new;
        match total {
            0 => drop(self.objects.remove(tenant)),
            total => drop(self.objects.insert(tenant.to_string(), total)),
        }
        total <= MAX_OBJECTS || tenant == ROOT
    }
}

impl OpenView {
    pub fn open(server: &Arc<Server>, workspace: &str, cluster: &str) -> Result<OpenView, Status> {
        let (cluster, tenant) =
            ((workspace.to_string(), cluster.to_string()), server.registry.tenant_of(workspace));
        if !server.open_views.counts().open(&cluster) {
            let message = format!(
                "cluster {} has {MAX_VIEWS} open sync views; stop the syncers that are not needed",
                cluster.1
            );
            return Err(Status::too_many_requests(message, 10));
        }
        Ok(OpenView { server: server.clone(), cluster, tenant, objects: 0 })
    }

    /// Records how many objects the view remembers. Returns whether it may continue.
    pub fn track(&mut self, objects: usize) -> bool {
        let old = std::mem::replace(&mut self.objects, objects);
        if old == objects || self.server.open_views.counts().track(&self.tenant, old, objects) {
            return true;
        }
        tracing::warn!(
            cluster = self.cluster.1,
            tenant = self.tenant,
            "closing a sync view: more than {MAX_OBJECTS} objects in the sync views of one tenant"
        );
        false
    }

    /// Closes the view. Returns whether it was the last one of the cluster.
    pub fn close(self) -> bool {
        let (server, (workspace, cluster)) = (self.server.clone(), self.cluster.clone());
        drop(self);
        !server.open_views.has(&workspace, &cluster)
    }
}

impl Drop for OpenView {
    fn drop(&mut self) {
        let mut counts = self.server.open_views.counts();
        counts.close(&self.cluster);
        counts.track(&self.tenant, self.objects, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_of_a_cluster_are_limited() {
        let mut counts = Counts::default();
        let (east, west) = (("w".to_string(), "east".to_string()), ("w".to_string(), "west".to_string()));
        assert!((0..MAX_VIEWS).all(|_| counts.open(&east)));
        assert!(!counts.open(&east) && counts.open(&west));
        counts.close(&east);
        assert!(counts.open(&east));
        (0..MAX_VIEWS).for_each(|_| counts.close(&east));
        assert_eq!(counts.views.keys().collect::<Vec<_>>(), [&west]);
    }

    #[test]
    fn objects_of_a_tenant_are_limited() {
        let mut counts = Counts::default();
        assert!(counts.track("team", 0, MAX_OBJECTS) && counts.track("other", 0, MAX_OBJECTS));
        assert!(!counts.track("team", 0, 1));
        assert!(counts.track(ROOT, 0, MAX_OBJECTS + 1), "root has no limit");
        assert!(counts.track("team", MAX_OBJECTS, 10));
        for (tenant, left) in [("team", 11), ("other", MAX_OBJECTS), (ROOT, MAX_OBJECTS + 1)] {
            counts.track(tenant, left, 0);
        }
        assert!(counts.objects.is_empty(), "{:?}", counts.objects);
    }
}
