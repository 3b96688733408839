//! Documents of version 3.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::operations::{self, Operation, Shown};
use crate::parameters::Parameter;
use crate::schemas::reference;
use crate::text::Text;
use crate::{Author, names};

type Object = Map<String, Value>;

/// What answers mean, by their code.
pub fn meaning(code: u16) -> &'static str {
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

/// The parameters that all operations of a path have.
pub fn common(operations: &[Operation]) -> Vec<Parameter> {
    let Some((first, others)) = operations.split_first() else { return Vec::new() };
    let everywhere =
        |parameter: &&Parameter| others.iter().all(|operation| operation.parameters.contains(parameter));
    first.parameters.iter().filter(everywhere).cloned().collect()
}

/// The names of all definitions that operations mention.
pub fn mentioned(paths: &Paths) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for operation in paths.values().flatten() {
        if let Some(body) = &operation.body {
            names.insert(body.definition.clone());
        }
        if let Shown::Definition(name) = &operation.shown {
            names.insert(name.clone());
        }
    }
    names
}

pub fn write(
    author: &Author<'_>,
    paths: &Paths,
    served: &[(&str, &str)],
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut text = Text::new(out)?;
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
        author
            .definitions
            .closure(false, names, served, &author.descriptions, |name, schema| text.member(name, &schema))?;
        text.close()?;
    }
    text.member("securitySchemes", &json!({ "BearerToken": bearer_token() }))?;
    text.close()?;
    text.close()
}

pub fn info() -> Value {
    // As upstream: the release without its patch level.
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
    let mut shown = Object::new();
    shown.insert("tags".into(), json!([operation.tag]));
    shown.insert("description".into(), operation.description.as_str().into());
    shown.insert("operationId".into(), operation.id.as_str().into());
    let own: Vec<Value> = operation
        .parameters
        .iter()
        .filter(|parameter| !common.contains(parameter))
        .map(of_parameter)
        .collect();
    if !own.is_empty() {
        shown.insert("parameters".into(), own.into());
    }
    if let Some(body) = &operation.body {
        let content = content(operation.consumes, &reference(&body.definition));
        let mut request = json!({ "content": content });
        if body.required {
            request["required"] = true.into();
        }
        shown.insert("requestBody".into(), request);
    }
    let schema = match &operation.shown {
        Shown::Definition(name) => reference(name),
        Shown::Text => json!({ "type": "string" }),
    };
    let mut answers = Object::new();
    for &code in &operation.answers {
        let answer = json!({ "description": meaning(code), "content": content(operation.produces, &schema) });
        answers.insert(code.to_string(), answer);
    }
    answers.insert("401".into(), json!({ "description": meaning(401) }));
    shown.insert("responses".into(), answers.into());
    extensions(operation, &mut shown);
    shown.into()
}

/// What Kubernetes adds to an operation, in both versions.
pub fn extensions(operation: &Operation, shown: &mut Object) {
    if let Some(action) = operation.action {
        shown.insert("x-kubernetes-action".into(), action.into());
    }
    if let Some((group, version, kind)) = &operation.kind {
        let kind = json!({ "group": group, "version": version, "kind": kind });
        shown.insert("x-kubernetes-group-version-kind".into(), kind);
    }
}

fn content(media: &[&str], schema: &Value) -> Object {
    media.iter().map(|media| ((*media).to_owned(), json!({ "schema": schema }))).collect()
}

fn of_parameter(parameter: &Parameter) -> Value {
    let mut shown = json!({
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.description,
        "schema": { "type": parameter.kind, "uniqueItems": true },
    });
    if parameter.place == "path" {
        shown["required"] = true.into();
    }
    shown
}

/// The documents that there are, by their path in the index.
pub fn paths(author: &Author<'_>) -> Vec<String> {
    let mut paths = vec!["version".to_owned()];
    paths.extend(TOKEN_DOCUMENTS.map(|(path, ..)| path.to_owned()));
    for (group, version) in author.api.group_versions() {
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

/// The operations of a document, and the group version whose own they are.
pub type Contents<'a> = (Vec<Operation>, Option<(&'a str, &'a str)>);

/// Where others learn how to verify the tokens of ServiceAccounts: path, name and tag of the operation, what it answers with.
const TOKEN_DOCUMENTS: [(&str, &str, &str, &str, &[&str]); 2] = [
    (
        ".well-known/openid-configuration",
        "getServiceAccountIssuerOpenIDConfiguration",
        "WellKnown",
        "say who signs the tokens of ServiceAccounts and where the keys are",
        &["application/json"],
    ),
    (
        "openid/v1/jwks",
        "getServiceAccountIssuerOpenIDKeyset",
        "openid",
        "get the keys that verify the tokens of ServiceAccounts",
        &["application/jwk-set+json"],
    ),
];

/// What the document at a path of the index holds.
pub fn operations_of<'a>(author: &Author<'a>, path: &str) -> Option<Contents<'a>> {
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
                "list the groups",
                "meta/v1.APIGroupList",
            );
        }
        _ => {}
    }
    for (group, version) in author.api.group_versions() {
        if names::root(group, version).trim_start_matches('/') == path {
            let operations = operations::of_group_version(author.api, author.types, group, version);
            return Some((operations, Some((group, version))));
        }
        if names::root(group, "").trim_start_matches('/') == path {
            let id = format!("get{}APIGroup", names::group_in_operation(group));
            return document(id, names::tag(group, ""), "get one group", "meta/v1.APIGroup");
        }
    }
    None
}
