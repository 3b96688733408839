//! The last of a workspace: what is left in the store under its id, whatever it is.

use atoll_meta::Status;
use atoll_store::{Condition, Write, WriteError};
use atoll_watch::Facts;

use crate::catalog::ATOLL;
use crate::{Registry, unavailable};

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
        for row in self.catalog.rows() {
            for key in snapshot.stored_keys(&row.scope(Some(workspace), "")) {
                if row.group == ATOLL && row.resource == "workspaces" {
                    let child = snapshot.get(&key).map(|child| child.field("status.id").to_string());
                    Box::pin(self.purge(&child.unwrap_or_default())).await?;
                }
                let memo = Some(Facts::none() as atoll_store::Memo);
                let write = Write { key, expect: Condition::Present, value: None, guards: Vec::new(), memo };
                match self.store.write(write).await {
                    Ok(_) | Err(WriteError::Unmet { .. }) => {}
                    Err(WriteError::Unavailable(cause)) => return Err(unavailable(&cause)),
                }
            }
        }
        Ok(())
    }
}
