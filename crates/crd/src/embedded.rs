//! Embedded resources, and the metadata of all objects.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/algorithm.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/coerce.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/validation.go

use atoll_meta::object::{split_api_version, validate_object_meta};
use atoll_meta::{FieldError, FieldPath, names};
use atoll_schema::{TypeId, Types, normalise};
use serde_json::{Map, Value, json};

use crate::node::{Flags, Node, NodeId, Rest};
use crate::schema::{Origin, Schema};

impl Schema {
    /// Decodes an object: coerces its metadata to Go's type, prunes unknown fields and disallowed nulls, and
    /// coerces embedded metadata. Returns the paths of unknown fields in upstream's order, or an error if the
    /// object cannot be decoded.
    pub fn read(&self, object: &mut Value, origin: Origin) -> Result<Vec<String>, String> {
        let lenient = origin == Origin::Storage;
        let mut unknown = match object.get_mut("metadata") {
            Some(metadata) => read_metadata(metadata, lenient, "metadata")?,
            None => Vec::new(),
        };
        unknown.extend(self.prune(object));
        unknown.extend(self.coerce_embedded(object, lenient)?);
        Ok(unknown)
    }

    /// Coerces only embedded metadata.
    pub fn coerce_embedded(&self, object: &mut Value, lenient: bool) -> Result<Vec<String>, String> {
        let root = self.root();
        if !root.is(Flags::HOLDS_EMBEDDED) {
            return Ok(Vec::new());
        }
        coerce(&self.nodes, root, object, root.is(Flags::EMBEDS), lenient).map_err(|error| error.to_string())
    }

    pub(crate) fn validate_embedded(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.root().is(Flags::HOLDS_EMBEDDED) {
            validate(&self.nodes, self.root(), object, &FieldPath::nil(), false, &mut errors);
        }
        errors
    }
}

fn object_meta() -> Option<TypeId> {
    Types::get().by_key("meta/v1.ObjectMeta")
}

/// Coerces metadata to Go's type. Malformed metadata is dropped if `lenient`, otherwise refused.
fn read_metadata(metadata: &mut Value, lenient: bool, prefix: &str) -> Result<Vec<String>, String> {
    let Some(id) = object_meta() else { return Ok(Vec::new()) };
    let decode = |value: &mut Value| normalise(Types::get(), id, value);
    if !lenient {
        return match decode(metadata) {
            Ok(unknown) => Ok(unknown.into_iter().map(|field| format!("{prefix}.{}", field.path)).collect()),
            Err(mismatch) => Err(mismatch.to_string()),
        };
    }
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let Value::Object(fields) = metadata else {
        return Err(format!("invalid metadata: expected object, got {}", go_type(metadata)));
    };
    let mut unknown = Vec::new();
    for (name, value) in std::mem::take(fields) {
        let mut alone = json!({ name: value });
        if let Ok(found) = decode(&mut alone) {
            unknown.extend(found.into_iter().map(|field| format!("{prefix}.{}", field.path)));
            if let Value::Object(alone) = alone {
                fields.extend(alone);
            }
        }
    }
    Ok(unknown)
}

/// Go's name for the type of a value.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Coerces the metadata of embedded resources. `embeds` says whether this value is one itself.
pub(crate) fn coerce<'n>(
    nodes: &'n [Node],
    node: &'n Node,
    value: &mut Value,
    embeds: bool,
    lenient: bool,
) -> Result<Vec<String>, FieldError> {
    coerce_at(nodes, node, value, embeds, lenient, &FieldPath::nil())
}

/// Coerces the embedded resources of a part at a path.
pub(crate) fn coerce_at<'n>(
    nodes: &'n [Node],
    node: &'n Node,
    value: &mut Value,
    embeds: bool,
    lenient: bool,
    path: &FieldPath,
) -> Result<Vec<String>, FieldError> {
    let mut walk = Coerce { nodes, lenient, unknown: Vec::new() };
    walk.value(node, value, path, embeds)?;
    walk.unknown.sort_unstable();
    Ok(walk.unknown)
}

struct Coerce<'n> {
    nodes: &'n [Node],
    lenient: bool,
    unknown: Vec<String>,
}

impl<'n> Coerce<'n> {
    fn value(
        &mut self,
        node: &'n Node,
        value: &mut Value,
        path: &FieldPath,
        embeds: bool,
    ) -> Result<(), FieldError> {
        if !embeds && !node.is(Flags::HOLDS_EMBEDDED) {
            return Ok(());
        }
        let nodes = self.nodes;
        let at = |id: NodeId| &nodes[id.0 as usize];
        match value {
            Value::Object(fields) => {
                if embeds {
                    self.coerce_resource(fields, path)?;
                }
                for (key, value) in fields.iter_mut() {
                    let (child, path) = match (node.property(key), node.rest) {
                        (Some(id), _) => (at(id), path.child(key.clone())),
                        (None, Rest::Node(id)) => (at(id), path.key(key)),
                        _ => continue,
                    };
                    self.value(child, value, &path, child.is(Flags::EMBEDS))?;
                }
            }
            Value::Array(items) => {
                let Some(child) = node.items.map(at) else { return Ok(()) };
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(child, item, &path.index(index), child.is(Flags::EMBEDS))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Coerces `apiVersion`, `kind` and `metadata` of an embedded resource.
    fn coerce_resource(
        &mut self,
        fields: &mut Map<String, Value>,
        path: &FieldPath,
    ) -> Result<(), FieldError> {
        for name in ["apiVersion", "kind"] {
            match fields.get(name) {
                None | Some(Value::String(_)) => {}
                Some(_) if self.lenient => drop(fields.remove(name)),
                Some(value) => {
                    return Err(FieldError::invalid(&path.child(name), value.clone(), "must be a string"));
                }
            }
        }
        let Some(metadata) = fields.get_mut("metadata") else { return Ok(()) };
        let path = path.child("metadata");
        let before = if self.lenient { Value::Null } else { metadata.clone() };
        match read_metadata(metadata, self.lenient, &path.to_string()) {
            Ok(unknown) => self.unknown.extend(unknown),
            Err(_) if self.lenient => {}
            Err(message) => return Err(FieldError::invalid(&path, before, message)),
        }
        Ok(())
    }
}

/// Validates embedded resources. `is_root` says whether this value is validated as one although the schema
/// does not declare it.
pub(crate) fn validate(
    nodes: &[Node],
    node: &Node,
    value: &Value,
    path: &FieldPath,
    is_root: bool,
    errors: &mut Vec<FieldError>,
) {
    let embeds = is_root || node.is(Flags::EMBEDS);
    if !embeds && !node.is(Flags::HOLDS_EMBEDDED) {
        return;
    }
    let at = |id: NodeId| &nodes[id.0 as usize];
    match value {
        Value::Object(fields) => {
            if embeds {
                validate_resource(fields, path, errors);
            }
            for (key, value) in fields {
                match (node.property(key), node.rest) {
                    (Some(id), _) => validate(nodes, at(id), value, &path.child(key.clone()), false, errors),
                    (None, Rest::Node(id)) => validate(nodes, at(id), value, &path.key(key), false, errors),
                    _ => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = node.items.map(at) else { return };
            for (index, item) in items.iter().enumerate() {
                validate(nodes, child, item, &path.index(index), false, errors);
            }
        }
        _ => {}
    }
}

fn validate_resource(fields: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        if !fields.contains_key(name) {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
    for name in ["apiVersion", "kind"] {
        let Some(value) = fields.get(name) else { continue };
        let path = path.child(name);
        let Value::String(text) = value else {
            errors.push(FieldError::invalid(&path, value.clone(), "must be a string"));
            continue;
        };
        if text.is_empty() {
            errors.push(FieldError::invalid(&path, "", "must not be empty"));
        } else if name == "apiVersion" {
            if split_api_version(text).is_none() {
                let detail = format!("unexpected GroupVersion string: {text}");
                errors.push(FieldError::invalid(&path, text.as_str(), detail));
            }
        } else {
            let broken = names::dns1035_label(&text.to_lowercase());
            if !broken.is_empty() {
                let detail = format!("may have mixed case, but should otherwise match: {}", broken.join(","));
                errors.push(FieldError::invalid(&path, text.as_str(), detail));
            }
        }
    }
    let Some(metadata) = fields.get("metadata") else { return };
    let path = path.child("metadata");
    let mut read = metadata.clone();
    match read_metadata(&mut read, false, "") {
        Err(message) => errors.push(FieldError::invalid(&path, metadata.clone(), message)),
        Ok(_) => {
            let named = read.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
            if let (false, Value::Object(fields)) = (named, &mut read) {
                // Upstream sets this name, because validation requires one.
                fields.insert("name".to_owned(), Value::from("fakename"));
            }
            let namespaced =
                read.get("namespace").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
            let object = json!({ "metadata": read });
            errors.extend(validate_object_meta(&object, namespaced, names::name_is_path_segment, &path));
        }
    }
}
