//! The definitions that a document needs, found by following its references.

// upstream: k8s.io/kube-openapi/pkg/builder3/openapi.go
// upstream: k8s.io/kube-openapi/pkg/common/common.go

use std::collections::{BTreeSet, HashMap, HashSet};

use atoll_schema::{TypeId, Types};
use serde_json::{Value, json};

use crate::descriptions::Descriptions;
use crate::names::{custom_definition, definition};
use crate::schemas::{self, COMPONENTS, reference};
use crate::{Api, KindSchema};

/// Definitions that are not structs of the facts.
const SPECIAL: [&str; 13] = [
    "meta/v1.Time",
    "meta/v1.Duration",
    "meta/v1.MicroTime",
    "meta/v1.FieldsV1",
    "meta/v1.Patch",
    "util/intstr.IntOrString",
    "api/resource.Quantity",
    "runtime.RawExtension",
    "apiextensions/v1.JSON",
    "apiextensions/v1.JSONSchemaPropsOrArray",
    "apiextensions/v1.JSONSchemaPropsOrBool",
    "apiextensions/v1.JSONSchemaPropsOrStringArray",
    "version.Info",
];

/// Kinds of every group version; other kinds of their package belong to the core group only.
const EVERYWHERE: [&str; 2] = ["meta/v1.DeleteOptions", "meta/v1.WatchEvent"];

/// The sources of definitions.
pub struct Definitions<'a> {
    types: &'static Types,
    sources: HashMap<String, Source<'a>>,
    kinds: HashMap<TypeId, Vec<(&'static str, &'static str, &'static str)>>,
}

enum Source<'a> {
    Struct(TypeId),
    Special(&'static str),
    Own(&'a KindSchema),
    OwnList(&'a KindSchema),
}

impl<'a> Definitions<'a> {
    pub fn new(api: &'a Api) -> Self {
        let types = Types::get();
        let mut sources: HashMap<String, Source<'a>> =
            types.iter().map(|owner| (definition(owner.key), Source::Struct(owner.id))).collect();
        for key in SPECIAL {
            sources.insert(definition(key), Source::Special(key));
        }
        for own in &api.kinds {
            sources.insert(custom_definition(&own.group, &own.version, &own.kind), Source::Own(own));
            if !own.list_kind.is_empty() {
                let list = custom_definition(&own.group, &own.version, &own.list_kind);
                sources.insert(list, Source::OwnList(own));
            }
        }
        let mut kinds: HashMap<TypeId, Vec<_>> = HashMap::new();
        for (group, version, kind, id) in types.kinds() {
            let group = if group == "meta.k8s.io" { "" } else { group };
            kinds.entry(id).or_default().push((group, version, kind));
        }
        Definitions { types, sources, kinds }
    }

    /// Calls `with` for the named definitions and all that they refer to. `served` are the group versions of
    /// the document; `is_v2` selects OpenAPI v2.
    pub fn closure<E>(
        &self,
        is_v2: bool,
        mut pending: BTreeSet<String>,
        served: &[(&str, &str)],
        descriptions: &Descriptions,
        mut with: impl FnMut(&str, Value) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut found = HashSet::new();
        while let Some(name) = pending.pop_first() {
            let Some(source) = self.sources.get(&name) else { continue };
            let schema = self.schema(is_v2, &name, source, served, descriptions);
            referred(&schema, &mut |other| {
                if !found.contains(other) && other != name {
                    pending.insert(other.to_owned());
                }
            });
            with(&name, schema)?;
            found.insert(name);
        }
        Ok(())
    }

    fn schema(
        &self,
        is_v2: bool,
        name: &str,
        source: &Source<'_>,
        served: &[(&str, &str)],
        descriptions: &Descriptions,
    ) -> Value {
        match source {
            Source::Struct(id) => {
                let owner = &self.types[*id];
                let mut schema = schemas::of_struct(self.types, owner, descriptions);
                let mut kinds = self.kinds.get(id).cloned().unwrap_or_default();
                if owner.key.starts_with("meta/v1.") {
                    kinds.truncate(1);
                }
                let mut kind_values: Vec<Value> =
                    kinds.iter().map(|kind| group_version_kind(*kind)).collect();
                if EVERYWHERE.contains(&owner.key) {
                    let others = served.iter().filter(|pair| **pair != ("", "v1"));
                    kind_values.extend(
                        others.map(|(group, version)| group_version_kind((group, version, owner.name))),
                    );
                }
                if !kind_values.is_empty() {
                    schema.insert("x-kubernetes-group-version-kind".into(), kind_values.into());
                }
                schema.into()
            }
            Source::Special(key) => {
                let mut schema = schemas::special(key).unwrap_or_else(|| json!({}));
                if let Some(description) = descriptions.of_type(name) {
                    schema["description"] = description.into_owned().into();
                }
                schema
            }
            Source::Own(own) => {
                let mut schema = match &own.v2_schema {
                    Some(v2_schema) if is_v2 => v2_schema.clone(),
                    _ => own.schema.clone(),
                };
                if own.v2_schema.is_some() {
                    describe(&mut schema, descriptions);
                }
                if !own.list_kind.is_empty() {
                    let kind = group_version_kind((&own.group, &own.version, &own.kind));
                    schema["x-kubernetes-group-version-kind"] = json!([kind]);
                }
                schema
            }
            Source::OwnList(own) => list_of(own, descriptions),
        }
    }
}

/// Adds the descriptions of the fields that all objects share.
fn describe(schema: &mut Value, descriptions: &Descriptions) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let known = definition("core/v1.ConfigMap");
    for name in ["apiVersion", "kind", "metadata"] {
        if let (Some(property), Some(text)) =
            (properties.get_mut(name), descriptions.of_property(&known, name))
        {
            property["description"] = text.into_owned().into();
        }
    }
    for property in
        properties.values_mut().filter(|property| property["x-kubernetes-embedded-resource"] == true)
    {
        describe(property, descriptions);
    }
}

fn group_version_kind((group, version, kind): (&str, &str, &str)) -> Value {
    json!({ "group": group, "version": version, "kind": kind })
}

/// Returns the schema of the list of a kind that is not built in.
fn list_of(own: &KindSchema, descriptions: &Descriptions) -> Value {
    let item = reference(&custom_definition(&own.group, &own.version, &own.kind));
    let metadata = reference(&definition("meta/v1.ListMeta"));
    let list = own.list_kind.as_str();
    let name = custom_definition(&own.group, &own.version, list);
    let described = |property: &str, mut schema: Value| {
        if let Some(description) = descriptions.of_property(&name, property) {
            schema["description"] = description.into_owned().into();
        }
        schema
    };
    let mut schema = described("", json!({ "type": "object", "required": ["items"] }));
    schema["properties"] = json!({
        "apiVersion": described("apiVersion", json!({ "type": "string" })),
        "kind": described("kind", json!({ "type": "string" })),
        "metadata": described("metadata", json!({ "default": {}, "allOf": [metadata] })),
        "items": described("items", json!({ "type": "array", "items": item })),
    });
    let kind = group_version_kind((&own.group, &own.version, list));
    schema["x-kubernetes-group-version-kind"] = json!([kind]);
    schema
}

/// Calls `found` with the name of every definition that a value refers to.
fn referred(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str() {
                    Some(text) if key == "$ref" => found(text.strip_prefix(COMPONENTS).unwrap_or(text)),
                    _ => referred(value, found),
                }
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| referred(element, found)),
        _ => {}
    }
}
