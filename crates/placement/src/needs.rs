//! The annotation `atoll.dev/needs`, with which an object names others that it needs in its clusters.

use atoll_fleet::references::{MAX_NEEDS, needs};
use atoll_meta::{FieldError, FieldPath, object};
use serde_json::Value;

pub use atoll_fleet::references::NEEDS;

/// The form of an entry.
const FORM: &str = "must be configmap/NAME, persistentvolumeclaim/NAME, secret/NAME or serviceaccount/NAME, of \
                    the same namespace; other objects are placed by their selector or owner, or by \
                    atoll.dev/clusters";

/// Returns the error in the annotation of an object.
pub fn validate(object: &Value) -> Option<FieldError> {
    let declared = object::annotation(object, NEEDS)?;
    let path = FieldPath::new("metadata").child("annotations").key(NEEDS);
    if let Some(entry) = needs(declared).find_map(Result::err) {
        return Some(FieldError::invalid(&path, entry, FORM));
    }
    let count = needs(declared).count();
    (count > MAX_NEEDS).then(|| FieldError::too_many(&path, count, MAX_NEEDS))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_name_objects_that_can_go_along() {
        let many = (0..=MAX_NEEDS).map(|number| format!("secret/s{number}")).collect::<Vec<_>>().join(",");
        for (declared, expected) in [
            ("configmap/a,secret/b", None),
            ("configmaps/a, serviceaccounts/b ,persistentvolumeclaim/c,", None),
            ("", None),
            ("pod/c", Some("pod/c")),
            ("secret/a,service/b", Some("service/b")),
            ("secret", Some("secret")),
            ("secret/", Some("secret/")),
            ("secret/a/b", Some("secret/a/b")),
            (many.as_str(), Some("64")),
        ] {
            let object = json!({ "metadata": { "annotations": { NEEDS: declared } } });
            let found = validate(&object).map(|error| error.body());
            match expected {
                None => assert_eq!(found, None, "{declared}"),
                Some(text) => assert!(found.is_some_and(|found| found.contains(text)), "{declared}"),
            }
        }
        assert_eq!(validate(&json!({})), None);
    }
}
