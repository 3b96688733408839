//! Definitions of custom resources.

use atoll_crd::{Definition, JsonPath, Origin, ValidationResult};
use atoll_meta::Deadline;
use atoll_meta::json::{self, Value};
use serde_json::json;

use crate::{Accepted, text};

/// For any definition, objects are decoded, defaulted and validated, and pruning twice removes nothing more.
/// The input is a list: a version of a definition, an object and an older object.
pub fn custom_resource(bytes: &[u8]) -> Accepted {
    let Value::Array(parts) = json::parse(bytes).ok()?.value else { return None };
    let [mut version, mut object, old] = <[Value; 3]>::try_from(parts).ok()?;
    version.as_object_mut()?.insert("name".into(), "v1".into());
    let definition = Definition::compile(&json!({
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets" },
            "versions": [version],
        },
    }));
    let version = definition.version("v1").expect("the version was just compiled");
    version.schema.read(&mut object, Origin::Request).ok()?;
    assert_eq!(version.schema.prune(&mut object), Vec::<String>::new());
    let _ = version.schema.apply_defaults(&mut object);
    let _ = version.schema.check(&object, &Deadline::never());
    let mut findings = ValidationResult::default();
    version.validate_create(&object, &mut findings, &Deadline::never());
    version.validate_update(&object, &old, &mut findings, &Deadline::never());
    version.validate_status_update(&object, &old, &mut findings, &Deadline::never());
    definition.validate_type(&object, "v1");
    definition.convert(&mut object, "v1");
    json::parse(&json::to_vec(&object)).expect("objects can be serialized");
    Some(())
}

/// A valid JSON path returns a text or nothing.
pub fn json_path(bytes: &[u8]) -> Accepted {
    let path = JsonPath::parse(text(bytes)?).ok()?;
    let object = json!({
        "metadata": { "name": "a", "labels": { "a.b/c": "d" } },
        "spec": { "items": [{ "name": "x", "size": 1 }, { "name": "y", "size": 2.5 }, null], "on": true },
    });
    let _ = path.text(&object);
    let _ = path.text(&Value::Null);
    Some(())
}
