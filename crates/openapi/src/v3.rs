//! OpenAPI v3 documents.

// upstream: k8s.io/kube-openapi/pkg/builder3/openapi.go

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::json_writer::JsonWriter;
use crate::operations::{self, Operation, ResponseContent};
use crate::parameters::Parameter;
use crate::schemas::reference;
use crate::{DocumentWriter, names};

type Object = Map<String, Value>;

/// Returns the description of a status code.
pub fn status_text(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        _ => "Unauthorized",
    }
}

/// Operations by path, and by method in it.
pub type Paths = BTreeMap<String, Vec<Operation>>;

pub fn by_path(operations: impl IntoIterator<Item = Operation>) -> Paths {
    let mut paths = Paths::new();
    for operation in operations {
        paths.entry(operation.path.clone()).or_default().push(operation);
    }
    paths
}

/// Returns the parameters that all operations of a path share.
pub fn common(operations: &[Operation]) -> Vec<Parameter> {
    let Some((first, others)) = operations.split_first() else { return Vec::new() };
    let everywhere =
        |parameter: &&Parameter| others.iter().all(|operation| operation.parameters.contains(parameter));
    first.parameters.iter().filter(everywhere).cloned().collect()
}

/// Returns the names of all definitions that operations refer to.
pub fn mentioned(paths: &Paths) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for operation in paths.values().flatten() {
        if let Some(body) = &operation.body {
            names.insert(body.definition.clone());
        }
        if let ResponseContent::Definition(name) = &operation.content {
            names.insert(name.clone());
        }
    }
    names
}

pub fn write(
    writer: &DocumentWriter<'_>,
    paths: &Paths,
    served: &[(&str, &str)],
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut text = JsonWriter::new(out)?;
    text.member("openapi", &"3.0.0".into())?;
    text.member("info", &info())?;
    text.open("paths")?;
    for (path, operations) in paths {
        text.member(path, &path_item(operations))?;
    }
    text.close()?;
    text.open("components")?;
    let names = mentioned(paths);
    if !names.is_empty() {
        text.open("schemas")?;
        writer
            .definitions
            .closure(false, names, served, &writer.descriptions, |name, schema| text.member(name, &schema))?;
        text.close()?;
    }
    text.member("securitySchemes", &json!({ "BearerToken": bearer_token() }))?;
    text.close()?;
    text.close()
}

pub fn info() -> Value {
    // As upstream: the release without its patch version.
    let version = atoll_schema::kubernetes_version().trim_start_matches('v');
    let release = version.rsplit_once('.').map_or(version, |(release, _)| release);
    json!({ "title": "Kubernetes", "version": release })
}

pub fn bearer_token() -> Value {
    json!({
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    })
}

fn path_item(operations: &[Operation]) -> Value {
    let common = common(operations);
    let mut item = Object::new();
    for operation in operations {
        item.insert(operation.method.to_owned(), of_operation(operation, &common));
    }
    if !common.is_empty() {
        item.insert("parameters".into(), common.iter().map(of_parameter).collect());
    }
    item.into()
}

fn of_operation(operation: &Operation, common: &[Parameter]) -> Value {
    let mut rendered = Object::new();
    rendered.insert("tags".into(), json!([operation.tag]));
    rendered.insert("description".into(), operation.description.as_str().into());
    rendered.insert("operationId".into(), operation.id.as_str().into());
    let own: Vec<Value> = operation
        .parameters
        .iter()
        .filter(|parameter| !common.contains(parameter))
        .map(of_parameter)
        .collect();
    if !own.is_empty() {
        rendered.insert("parameters".into(), own.into());
    }
    if let Some(body) = &operation.body {
        let content = content(operation.consumes, &reference(&body.definition));
        let mut request = json!({ "content": content });
        if body.required {
            request["required"] = true.into();
        }
        rendered.insert("requestBody".into(), request);
    }
    let schema = match &operation.content {
        ResponseContent::Definition(name) => reference(name),
        ResponseContent::Text => json!({ "type": "string" }),
    };
    let mut status_codes = Object::new();
    for &code in &operation.status_codes {
        let answer =
            json!({ "description": status_text(code), "content": content(operation.produces, &schema) });
        status_codes.insert(code.to_string(), answer);
    }
    status_codes.insert("401".into(), json!({ "description": status_text(401) }));
    rendered.insert("responses".into(), status_codes.into());
    extensions(operation, &mut rendered);
    rendered.into()
}

/// Adds Kubernetes' extensions to an operation, for both versions.
pub fn extensions(operation: &Operation, rendered: &mut Object) {
    if let Some(action) = operation.action {
        rendered.insert("x-kubernetes-action".into(), action.into());
    }
    if let Some((group, version, kind)) = &operation.kind {
        let kind = json!({ "group": group, "version": version, "kind": kind });
        rendered.insert("x-kubernetes-group-version-kind".into(), kind);
    }
}

fn content(media: &[&str], schema: &Value) -> Object {
    media.iter().map(|media| ((*media).to_owned(), json!({ "schema": schema }))).collect()
}

fn of_parameter(parameter: &Parameter) -> Value {
    let mut rendered = json!({
        "name": parameter.name,
        "in": parameter.location,
        "description": parameter.description,
        "schema": { "type": parameter.kind, "uniqueItems": true },
    });
    if parameter.location == "path" {
        rendered["required"] = true.into();
    }
    rendered
}

/// Returns the paths of all documents.
pub fn paths(writer: &DocumentWriter<'_>) -> Vec<String> {
    let mut paths = vec!["version".to_owned()];
    paths.extend(TOKEN_DOCUMENTS.map(|(path, ..)| path.to_owned()));
    for (group, version) in writer.api.group_versions() {
        for path in [names::root(group, ""), names::root(group, version)] {
            paths.push(path.trim_start_matches('/').to_owned());
        }
    }
    if paths.iter().any(|path| path.starts_with("apis/")) {
        paths.push("apis".to_owned());
    }
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// The operations of a document, and its group version.
pub type Contents<'a> = (Vec<Operation>, Option<(&'a str, &'a str)>);

/// Discovery documents for verifying ServiceAccount tokens: path, name and tag of the operation, description,
/// media types.
const TOKEN_DOCUMENTS: [(&str, &str, &str, &str, &[&str]); 2] = [
    (
        ".well-known/openid-configuration",
        "getServiceAccountIssuerOpenIDConfiguration",
        "WellKnown",
        "get the OpenID configuration of the ServiceAccount issuer",
        &["application/json"],
    ),
    (
        "openid/v1/jwks",
        "getServiceAccountIssuerOpenIDKeyset",
        "openid",
        "get the public keys of the ServiceAccount issuer",
        &["application/jwk-set+json"],
    ),
];

/// Returns the contents of the document at a path.
pub fn operations_of<'a>(writer: &DocumentWriter<'a>, path: &str) -> Option<Contents<'a>> {
    let document = |id: String, tag: String, description: &str, key: &str| {
        Some((vec![operations::document(format!("/{path}/"), id, tag, description, key)], None))
    };
    if let Some(&(path, id, tag, description, produces)) =
        TOKEN_DOCUMENTS.iter().find(|(known, ..)| *known == path)
    {
        let operation =
            operations::text(format!("/{path}/"), id.to_owned(), tag.to_owned(), description, produces);
        return Some((vec![operation], None));
    }
    match path {
        "version" => {
            let (mut operations, _) = document(
                "getCodeVersion".into(),
                "version".into(),
                "get the version of this server",
                "version.Info",
            )?;
            for operation in &mut operations {
                operation.consumes = &["application/json"];
                operation.produces = &["application/json"];
            }
            return Some((operations, None));
        }
        "api" => {
            return document(
                "getCoreAPIVersions".into(),
                "core".into(),
                "list the versions of the core group",
                "meta/v1.APIVersions",
            );
        }
        "apis" => {
            return document(
                "getAPIVersions".into(),
                "apis".into(),
                "list the API groups",
                "meta/v1.APIGroupList",
            );
        }
        _ => {}
    }
    for (group, version) in writer.api.group_versions() {
        if names::root(group, version).trim_start_matches('/') == path {
            let operations = operations::of_group_version(writer.api, writer.types, group, version);
            return Some((operations, Some((group, version))));
        }
        if names::root(group, "").trim_start_matches('/') == path {
            let id = format!("get{}APIGroup", names::group_in_operation(group));
            return document(id, names::tag(group, ""), "get an API group", "meta/v1.APIGroup");
        }
    }
    None
}
