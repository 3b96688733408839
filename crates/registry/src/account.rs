//! Writes by which the server itself keeps account in the status of objects.

use atoll_meta::Status;
use atoll_store::{Condition, Key, Write};
use serde_json::Value;

use crate::row::{Place, Row};
use crate::update::Update;
use crate::{Registry, Unasked, parse};

impl Registry {
    /// Replaces the status, on condition that the object is still what `new` was made from.
    pub async fn write_status(
        &self,
        row: &Row,
        place: &Place<'_>,
        new: Value,
        manager: &str,
    ) -> Result<(), Status> {
        let transform = |_: Option<&Value>| Ok(new.clone());
        let update = Update {
            subresource: "status",
            manager: Some(manager),
            transform: &transform,
            admission: &Unasked,
            uid: None,
            create_missing: false,
            dry_run: false,
        };
        self.update(row, place, &update).await.map(drop)
    }

    /// Writes what is there once more, unchanged but with a new revision, unless somebody else writes it. To be awaited
    /// by somebody who need not keep the registry.
    pub fn touch(&self, row: &Row, key: &Key) -> Option<impl Future<Output = ()> + Send + use<>> {
        let snapshot = self.snapshot();
        let existing = snapshot.get(key)?;
        let expect = Condition::At(snapshot.stored_revision(key)?);
        let (value, memo) = self.encode_stored(row, &mut parse(&existing.json).ok()?);
        let write =
            Write { key: key.clone(), expect, value: Some(value), guards: Vec::new(), memo: Some(memo) };
        let store = self.store.clone();
        Some(async move { drop(store.write(write).await) })
    }
}
