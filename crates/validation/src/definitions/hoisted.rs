//! What all versions of a definition share. Upstream keeps it once, above them, and its messages point there.

use atoll_meta::field::BadValue;
use serde_json::Value;

use crate::at::{At, equal};

/// The parts that are the same in all versions and not empty.
pub(super) struct Hoisted<'a> {
    pub schema: Option<&'a Value>,
    pub subresources: Option<&'a Value>,
    pub columns: Option<&'a Value>,
    pub fields: Option<&'a Value>,
}

const FIELDS: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];

impl<'a> Hoisted<'a> {
    pub fn of(spec: &At<'a>) -> Hoisted<'a> {
        let versions = spec.get("versions").list();
        let null = &Value::Null;
        let shared = |field: &str| {
            let first = versions.first()?.get(field)?;
            let same = versions.iter().all(|version| equal(version.get(field).unwrap_or(null), first));
            same.then_some(first)
        };
        let [schema, subresources, columns, fields] = FIELDS.map(shared);
        Hoisted { schema, subresources, columns, fields }
    }

    /// The versions without what they share.
    pub fn shown(&self, versions: &At<'_>) -> BadValue {
        let shared = [self.schema, self.subresources, self.columns, self.fields];
        let list = versions.list().iter().map(|version| {
            let mut version = version.clone();
            if let Some(fields) = version.as_object_mut() {
                let shared = FIELDS.into_iter().zip(shared).filter(|(_, shared)| shared.is_some());
                shared.for_each(|(field, _)| drop(fields.remove(field)));
            }
            super::shown_version(&version)
        });
        let list: Vec<String> = list.collect();
        BadValue::Rendered(if list.is_empty() { "null".to_owned() } else { format!("[{}]", list.join(",")) })
    }
}
