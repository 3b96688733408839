//! A compiled CustomResourceDefinition.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/nop_converter.go

use std::sync::Arc;

use atoll_meta::{FieldError, FieldPath, object};
use serde_json::Value;

use crate::columns::Column;
use crate::path::JsonPath;
use crate::scale::Scale;
use crate::schema::Schema;

/// A compiled CustomResourceDefinition. Clones share everything.
#[derive(Clone, Debug)]
pub struct Definition(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    group: Box<str>,
    names: Names,
    namespaced: bool,
    preserves: bool,
    versions: Box<[Version]>,
}

/// The names of a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub plural: Box<str>,
    pub singular: Box<str>,
    pub kind: Box<str>,
    pub list_kind: Box<str>,
    pub short_names: Box<[Box<str>]>,
    pub categories: Box<[Box<str>]>,
}

/// One version of a definition, served or not.
#[derive(Clone, Debug)]
pub struct Version {
    pub name: Box<str>,
    pub served: bool,
    pub storage: bool,
    /// The deprecation warning.
    pub warning: Option<Box<str>>,
    pub schema: Arc<Schema>,
    /// Columns except the name.
    pub columns: Arc<[Column]>,
    /// Whether the status is a subresource.
    pub has_status: bool,
    pub scale: Option<Scale>,
    pub selectable: Arc<[Selectable]>,
}

/// A selectable field.
#[derive(Clone, Debug)]
pub struct Selectable {
    /// Name in field selectors: `spec.color`.
    pub name: Box<str>,
    path: JsonPath,
}

impl Selectable {
    /// The value of an object for selectors; empty if there is none.
    pub fn value(&self, object: &Value) -> String {
        self.path.text(object)
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl Names {
    /// Reads `spec.names` or `status.acceptedNames`.
    pub fn of(names: &Value) -> Names {
        let texts =
            |field: &str| list(names, field).iter().filter_map(Value::as_str).map(Into::into).collect();
        Names {
            plural: text(names, "plural").into(),
            singular: text(names, "singular").into(),
            kind: text(names, "kind").into(),
            list_kind: text(names, "listKind").into(),
            short_names: texts("shortNames"),
            categories: texts("categories"),
        }
    }
}

impl Definition {
    /// Compiles a stored definition. Nothing is validated: invalid parts are ignored.
    pub fn compile(definition: &Value) -> Definition {
        let spec = definition.get("spec").unwrap_or(&Value::Null);
        let (group, names) = (text(spec, "group"), Names::of(spec.get("names").unwrap_or(&Value::Null)));
        let preserves = flag(spec, "preserveUnknownFields");
        let mut versions: Vec<Version> = Vec::new();
        for (index, source) in list(spec, "versions").iter().enumerate() {
            // Versions often differ only in their names: share the schema.
            let same = list(spec, "versions")[..index]
                .iter()
                .position(|other| other.get("schema") == source.get("schema"));
            let schema = match same {
                Some(same) => versions[same].schema.clone(),
                None => {
                    let schema = source.get("schema").and_then(|schema| schema.get("openAPIV3Schema"));
                    Arc::new(Schema::compile(schema, preserves))
                }
            };
            versions.push(Version::new(source, group, &names.kind, schema));
        }
        Definition(Arc::new(Inner {
            group: group.into(),
            names,
            namespaced: text(spec, "scope") == "Namespaced",
            preserves,
            versions: versions.into(),
        }))
    }

    pub fn group(&self) -> &str {
        &self.0.group
    }

    pub fn names(&self) -> &Names {
        &self.0.names
    }

    pub fn is_namespaced(&self) -> bool {
        self.0.namespaced
    }

    /// Whether unknown fields are preserved everywhere, as in definitions from `v1beta1`.
    pub fn preserves_unknown_fields(&self) -> bool {
        self.0.preserves
    }

    /// All versions in the order of the definition.
    pub fn versions(&self) -> &[Version] {
        &self.0.versions
    }

    pub fn version(&self, name: &str) -> Option<&Version> {
        self.0.versions.iter().find(|version| &*version.name == name)
    }

    /// The storage version.
    pub fn storage_version(&self) -> Option<&Version> {
        self.0.versions.iter().find(|version| version.storage)
    }

    /// Converts an object to another version, which changes only `apiVersion`.
    pub fn convert(&self, object: &mut Value, version: &str) {
        if let Value::Object(fields) = object {
            fields.insert("apiVersion".to_owned(), Value::from(format!("{}/{version}", self.group())));
        }
    }

    /// Errors if the kind or version of an object differs.
    pub fn validate_type(&self, object: &Value, version: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let (kind, wanted) = (object::kind(object), &*self.0.names.kind);
        if kind != wanted {
            errors.push(FieldError::invalid(&FieldPath::new("kind"), kind, format!("must be {wanted}")));
        }
        let (given, wanted) = (object::api_version(object), format!("{}/{version}", self.group()));
        if given != wanted {
            let path = FieldPath::new("apiVersion");
            errors.push(FieldError::invalid(&path, given, format!("must be {wanted}")));
        }
        errors
    }
}

impl Version {
    fn new(source: &Value, group: &str, kind: &str, schema: Arc<Schema>) -> Version {
        let subresources = source.get("subresources").unwrap_or(&Value::Null);
        let scale = subresources.get("scale").filter(|scale| scale.is_object()).map(|scale| Scale {
            spec_replicas: text(scale, "specReplicasPath").into(),
            status_replicas: text(scale, "statusReplicasPath").into(),
            label_selector: scale.get("labelSelectorPath").and_then(Value::as_str).map(Into::into),
        });
        let name = text(source, "name");
        let warning = flag(source, "deprecated").then(|| match source.get("deprecationWarning") {
            Some(Value::String(warning)) => warning.as_str().into(),
            _ => format!("{group}/{name} {kind} is deprecated").into(),
        });
        let selectable = list(source, "selectableFields").iter().filter_map(|field| {
            let path = text(field, "jsonPath");
            Some(Selectable {
                name: path.strip_prefix('.').unwrap_or(path).into(),
                path: JsonPath::parse(path).ok()?,
            })
        });
        Version {
            name: name.into(),
            served: flag(source, "served"),
            storage: flag(source, "storage"),
            warning,
            schema,
            columns: Column::all(source).into(),
            has_status: subresources.get("status").is_some_and(Value::is_object),
            scale,
            selectable: selectable.collect(),
        }
    }
}
