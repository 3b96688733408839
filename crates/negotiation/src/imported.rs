//! The definition of a type as one cluster has it.

use atoll_crd::Names;
use serde_json::{Value, json};

use crate::bounds::{self, Excess};

/// A type of a cluster: from a CustomResourceDefinition, or from discovery and OpenAPI.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedDefinition {
    pub group: String,
    pub names: Names,
    pub is_namespaced: bool,
    /// The served versions, the preferred one first.
    pub versions: Vec<ImportedVersion>,
}

/// A served version of a type.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedVersion {
    pub name: String,
    /// In the form of `openAPIV3Schema`.
    pub schema: Value,
    /// Whether the status is a subresource.
    pub has_status: bool,
    /// `subresources.scale` of a CustomResourceDefinition.
    pub scale: Option<Value>,
    /// `additionalPrinterColumns` of a CustomResourceDefinition.
    pub columns: Vec<Value>,
    /// `selectableFields` of a CustomResourceDefinition.
    pub selectable_fields: Vec<Value>,
}

/// Maximum number of versions of a type.
const MOST_VERSIONS: usize = 32;

impl ImportedDefinition {
    /// Reads the served versions of a CustomResourceDefinition. The storage version is the preferred one.
    ///
    /// # Errors
    ///
    /// A schema exceeds the limits.
    pub fn from_definition(definition: &Value) -> Result<ImportedDefinition, Excess> {
        let spec = &definition["spec"];
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut versions = list(&spec["versions"]);
        versions.retain(|version| version["served"] == true);
        if versions.len() > MOST_VERSIONS {
            return Err(Excess::Size);
        }
        // The rest keeps the order of the definition.
        versions.sort_by_key(|version| version["storage"] != true);
        let preserves = spec["preserveUnknownFields"] == true;
        let versions = versions.into_iter().map(|mut version: Value| -> Result<ImportedVersion, Excess> {
            let schema = version.pointer_mut("/schema/openAPIV3Schema").map(Value::take);
            let mut schema = schema.unwrap_or_default();
            bounds::check(&schema)?;
            if !schema.is_object() {
                schema = json!({ "type": "object" });
            }
            if preserves {
                schema["x-kubernetes-preserve-unknown-fields"] = true.into();
            }
            let subresources = &version["subresources"];
            Ok(ImportedVersion {
                name: version["name"].as_str().unwrap_or_default().to_owned(),
                schema,
                has_status: subresources["status"].is_object(),
                scale: Some(&subresources["scale"]).filter(|scale| scale.is_object()).cloned(),
                columns: list(&version["additionalPrinterColumns"]),
                selectable_fields: list(&version["selectableFields"]),
            })
        });
        let versions = versions.collect::<Result<Vec<ImportedVersion>, Excess>>()?;
        Ok(ImportedDefinition {
            group: spec["group"].as_str().unwrap_or_default().to_owned(),
            names: Names::of(&spec["names"]),
            is_namespaced: spec["scope"] == "Namespaced",
            versions,
        })
    }

    pub fn version(&self, name: &str) -> Option<&ImportedVersion> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The definition as a CustomResourceDefinition without status. The preferred version is the storage
    /// version.
    pub fn to_definition(&self) -> Value {
        let Names { plural, singular, kind, list_kind, short_names, categories } = &self.names;
        let mut names =
            json!({ "plural": plural, "singular": singular, "kind": kind, "listKind": list_kind });
        for (field, list) in [("shortNames", short_names), ("categories", categories)] {
            if !list.is_empty() {
                names[field] = list.iter().map(|name| Value::from(&**name)).collect();
            }
        }
        let versions = self.versions.iter().enumerate().map(|(index, version)| version.json(index == 0));
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{}", self.group) },
            "spec": {
                "group": self.group,
                "names": names,
                "scope": if self.is_namespaced { "Namespaced" } else { "Cluster" },
                "versions": versions.collect::<Vec<Value>>(),
            },
        })
    }

    /// The names of the served versions.
    pub fn version_names(&self) -> Vec<String> {
        self.versions.iter().map(|version| version.name.clone()).collect()
    }
}

impl ImportedVersion {
    fn json(&self, is_storage: bool) -> Value {
        let mut version = json!({
            "name": self.name,
            "served": true,
            "storage": is_storage,
            "schema": { "openAPIV3Schema": self.schema },
        });
        if self.has_status {
            version["subresources"]["status"] = json!({});
        }
        if let Some(scale) = &self.scale {
            version["subresources"]["scale"] = scale.clone();
        }
        for (field, list) in
            [("additionalPrinterColumns", &self.columns), ("selectableFields", &self.selectable_fields)]
        {
            if !list.is_empty() {
                version[field] = list.clone().into();
            }
        }
        version
    }
}
