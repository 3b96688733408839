//! Managed fields of kinds that are served in several versions: each manager's entry is in the version that
//! it used.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/structuredmerge.go
// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/versionconverter.go

use atoll_merge::apply::{Author, Kind, is_reset, merge_managers};
use atoll_meta::object;
use serde_json::Value;

use crate::Registry;
use crate::definitions::CustomVersion;
use crate::row::Row;

const MANAGED_FIELDS: &str = "managedFields";

impl Registry {
    /// Updates the managed fields of `new`, which was computed from `existing`. Both are in the version of the
    /// row.
    pub(crate) fn record(&self, row: &Row, existing: &Value, new: &mut Value, author: &Author<'_>) {
        let Ok(others) = self.others(row, existing, new, author) else {
            object::metadata_mut(new).remove(MANAGED_FIELDS);
            return;
        };
        if row.view.is_some() {
            // Record the fields as they are returned, not as they were sent.
            let mut returned = new.clone();
            row.to_stored(&mut returned);
            row.to_view(&mut returned);
            row.managed.record(existing, &mut returned, author);
            let recorded = object::remove_metadata(&mut returned, MANAGED_FIELDS);
            let fields = object::metadata_mut(new);
            match recorded {
                Some(recorded) => fields.insert(MANAGED_FIELDS.into(), recorded),
                None => fields.remove(MANAGED_FIELDS),
            };
        } else {
            row.managed.record(existing, new, author);
        }
        if let Some(others) = others {
            let fields = object::metadata_mut(new);
            if let Some(all) = merge_managers(fields.get(MANAGED_FIELDS), &others) {
                fields.insert(MANAGED_FIELDS.into(), all);
            }
        }
    }

    /// The remaining fields of managers in other versions.
    fn others(
        &self,
        row: &Row,
        existing: &Value,
        new: &Value,
        author: &Author<'_>,
    ) -> Result<Option<Value>, ConversionError> {
        let sent = new["metadata"].get(MANAGED_FIELDS).filter(|_| author.subresource.is_empty());
        let source = match sent {
            Some(sent) if is_reset(Some(sent)) => return Ok(None),
            Some(Value::Array(sent)) if !sent.is_empty() => sent,
            _ => match existing["metadata"].get(MANAGED_FIELDS).and_then(Value::as_array) {
                Some(kept) => kept,
                None => return Ok(None),
            },
        };
        match &row.custom {
            Some(custom) => fields_in_other_custom_versions(row, custom, source, existing, new, author),
            None => Ok(self.fields_in_other_version(row, source, existing, new, author)),
        }
    }

    fn fields_in_other_version(
        &self,
        row: &Row,
        source: &[Value],
        existing: &Value,
        new: &Value,
        author: &Author<'_>,
    ) -> Option<Value> {
        let own = row.api_version();
        let other =
            source.iter().filter_map(|entry| entry["apiVersion"].as_str()).find(|other| *other != own)?;
        let is_other = |sibling: &&crate::SharedRow| {
            sibling.resource == row.resource
                && sibling.storage_group() == row.storage_group()
                && sibling.api_version() == other
        };
        let sibling = self.catalog.rows().iter().find(is_other)?;
        let (mut live, mut changed) = (existing.clone(), new.clone());
        object::metadata_mut(&mut live).insert(MANAGED_FIELDS.into(), source.into());
        for object in [&mut live, &mut changed] {
            row.to_stored(object);
            sibling.to_view(object);
        }
        sibling.managed.entries_after_change(&live, &changed, author)
    }
}

/// The fields of a manager in another version cannot be determined, because that version does not have all
/// fields.
struct ConversionError;

/// The remaining fields of managers in other versions of a custom resource. Upstream only changes
/// `apiVersion` to determine them, and drops all managed fields if the result does not fit.
fn fields_in_other_custom_versions(
    row: &Row,
    custom: &CustomVersion,
    source: &[Value],
    existing: &Value,
    new: &Value,
    author: &Author<'_>,
) -> Result<Option<Value>, ConversionError> {
    let mut left = None;
    for version in custom.definition.versions().iter().filter(|version| version.name != custom.version.name) {
        let api_version = format!("{}/{}", row.group, version.name);
        if !source.iter().any(|entry| entry["apiVersion"] == *api_version) {
            continue;
        }
        let kind = Kind::custom(api_version.clone(), &row.kind, version.schema.clone());
        let (mut live, mut changed) = (existing.clone(), new.clone());
        for object in [&mut live, &mut changed] {
            object::set_type(object, &api_version, &row.kind);
            if !kind.accepts(object) {
                return Err(ConversionError);
            }
        }
        object::metadata_mut(&mut live).insert(MANAGED_FIELDS.into(), source.into());
        if let Some(entries) = kind.entries_after_change(&live, &changed, author) {
            left = merge_managers(left.as_ref(), &entries);
        }
    }
    Ok(left)
}
