//! Fields that all versions of a definition share. Upstream's internal type has them once, above the
//! versions, and its messages use those paths.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/conversion.go

use atoll_meta::field::BadValue;
use serde_json::Value;

use crate::field_value::{FieldValue, equal};

/// The parts that are equal in all versions and not empty.
pub(super) struct TopLevelFields<'a> {
    pub schema: Option<&'a Value>,
    pub subresources: Option<&'a Value>,
    pub columns: Option<&'a Value>,
    pub fields: Option<&'a Value>,
}

const FIELDS: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];

impl<'a> TopLevelFields<'a> {
    pub fn of(spec: &FieldValue<'a>) -> TopLevelFields<'a> {
        let versions = spec.get("versions").list();
        let null = &Value::Null;
        let shared = |field: &str| {
            let first = versions.first()?.get(field)?;
            let same = versions.iter().all(|version| equal(version.get(field).unwrap_or(null), first));
            same.then_some(first)
        };
        let [schema, subresources, columns, fields] = FIELDS.map(shared);
        TopLevelFields { schema, subresources, columns, fields }
    }

    /// Renders the versions without the shared fields.
    pub fn render_versions(&self, versions: &FieldValue<'_>) -> BadValue {
        let shared = [self.schema, self.subresources, self.columns, self.fields];
        let list = versions.list().iter().map(|version| {
            let mut version = version.clone();
            if let Some(fields) = version.as_object_mut() {
                let shared = FIELDS.into_iter().zip(shared).filter(|(_, shared)| shared.is_some());
                shared.for_each(|(field, _)| drop(fields.remove(field)));
            }
            super::render_version(&version)
        });
        let list: Vec<String> = list.collect();
        BadValue::Rendered(if list.is_empty() { "null".to_owned() } else { format!("[{}]", list.join(",")) })
    }
}
