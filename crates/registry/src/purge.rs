//! The last of a workspace: what is left in the store under its id, whatever it is.

use atoll_meta::Status;
use atoll_store::{Condition, Key, Write, WriteError};
use atoll_watch::{Facts, Scope};

use crate::catalog::ATOLL;
use crate::{Registry, definitions, services, unavailable};

impl Registry {
    /// Removes every key of a workspace. Its objects are gone by now; what remains are the marks and copies
    /// that lie over the shared layer, which nobody can see any longer.
    ///
    /// Where somebody took the finalizer away by hand there may be more, children too: then this is all the
    /// cleaning there is.
    pub(crate) async fn purge(&self, workspace: &str) -> Result<(), Status> {
        if workspace.is_empty() {
            return Ok(());
        }
        let snapshot = self.snapshot();
        let (group, resource) = services::PORTS;
        let ports = Scope::new(group, resource, Some(workspace), None);
        for key in snapshot.stored_keys(&ports) {
            self.remove(key).await?;
        }
        // What a dialect left behind goes as well, whether it is still spoken or not.
        let mut custom = definitions::list(&snapshot, workspace);
        custom.extend(self.catalog.kcp().iter().cloned());
        for definition in custom {
            for key in snapshot.stored_keys(&definition.scope(workspace)) {
                self.remove(key).await?;
            }
        }
        for row in self.catalog.rows() {
            for key in snapshot.stored_keys(&row.scope(Some(workspace), "")) {
                if row.group == ATOLL && row.resource == "workspaces" {
                    Box::pin(self.purge_child(&key)).await?;
                }
                self.remove(key).await?;
            }
        }
        Ok(())
    }

    /// Removes every key of the workspace that a Workspace object stands for. An id that is another object's is not
    /// touched.
    pub(crate) async fn purge_child(&self, key: &Key) -> Result<(), Status> {
        let child = self.snapshot().get(key).map(|child| child.field("status.id").to_string());
        match child.filter(|id| self.placements.lineage.is_of(id, key)) {
            Some(id) => self.purge(&id).await,
            None => Ok(()),
        }
    }

    /// Removes a key whatever is there. That nothing is there is as good.
    pub(crate) async fn remove(&self, key: Key) -> Result<(), Status> {
        let memo = Some(Facts::none() as atoll_store::Memo);
        let write = Write { key, expect: Condition::Present, value: None, guards: Vec::new(), memo };
        match self.store.write(write).await {
            Ok(_) | Err(WriteError::Unmet { .. }) => Ok(()),
            Err(WriteError::Unavailable(cause)) => Err(unavailable(&cause)),
        }
    }
}
