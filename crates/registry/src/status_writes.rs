//! Status writes by the server itself.

use atoll_meta::Status;
use atoll_store::{Condition, Key, Write};
use serde_json::Value;

use crate::row::{ObjectRef, Row};
use crate::update::Update;
use crate::{NoAdmission, Registry, parse};

impl Registry {
    /// Replaces the status if the object has not changed since `new` was computed from it.
    pub async fn write_status(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        new: Value,
        manager: &str,
    ) -> Result<(), Status> {
        let transform = |_: Option<&Value>| Ok(new.clone());
        let update = Update {
            subresource: "status",
            manager: Some(manager),
            size: 0,
            transform: &transform,
            admission: &NoAdmission,
            uid: None,
            create_missing: false,
            dry_run: false,
        };
        self.update(row, object_ref, &update).await.map(drop)
    }

    /// Rewrites an unchanged object to give it a new revision, unless another writer changes it first. The
    /// returned future does not borrow the registry.
    pub fn touch(&self, row: &Row, key: &Key) -> Option<impl Future<Output = ()> + Send + use<>> {
        let snapshot = self.snapshot();
        let existing = snapshot.get(key)?;
        let expect = Condition::At(snapshot.stored_revision(key)?);
        let (value, hint) = self.encode_stored(row, &mut parse(&existing.json()).ok()?);
        let write =
            Write { key: key.clone(), expect, value: Some(value), guards: Vec::new(), hint: Some(hint) };
        let store = self.store.clone();
        Some(async move { drop(store.write(write).await) })
    }
}
