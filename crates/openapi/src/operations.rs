//! Operations by path.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/openapi/openapi.go

mod media;

use atoll_schema::Types;

use crate::names::{self, capitalised, custom_definition, definition, group_in_operation};
use crate::parameters::{self as parameter, OptionsType, Parameter};
use crate::{Api, Resource, Subresource, metrics};
use media::{ANYTHING, BUILT_IN, CUSTOM, Media, TEXT};

/// One method at one path.
#[derive(Debug)]
pub struct Operation {
    pub path: String,
    pub method: &'static str,
    pub id: String,
    pub tag: String,
    pub description: String,
    pub action: Option<&'static str>,
    /// Group, version and kind.
    pub kind: Option<(String, String, String)>,
    pub parameters: Vec<Parameter>,
    pub body: Option<Body>,
    pub consumes: &'static [&'static str],
    pub produces: &'static [&'static str],
    pub status_codes: Vec<u16>,
    pub content: ResponseContent,
}

#[derive(Debug)]
pub struct Body {
    pub definition: String,
    pub required: bool,
}

/// The contents of a response.
#[derive(Debug)]
pub enum ResponseContent {
    Definition(String),
    Text,
}

/// Subresources that connect to another endpoint, with any method.
const CONNECTIONS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];
/// Verbs of connections and their methods; a proxy forwards all methods.
const METHODS: [(&str, &str); 5] =
    [("get", "get"), ("create", "post"), ("update", "put"), ("patch", "patch"), ("delete", "delete")];

/// Returns all operations of a group version, its resource list first.
pub fn of_group_version(api: &Api, types: &Types, group: &str, version: &str) -> Vec<Operation> {
    let mut operations = vec![document(
        format!("{}/", names::root(group, version)),
        format!("get{}{}APIResources", group_in_operation(group), capitalised(version)),
        names::tag(group, version),
        "list the resources of this group version",
        "meta/v1.APIResourceList",
    )];
    for resource in
        api.resources.iter().filter(|resource| resource.group == group && resource.version == version)
    {
        Writer { api, types, resource, operations: &mut operations }.write();
    }
    operations
}

/// Returns the operation of a discovery document.
pub fn document(path: String, id: String, tag: String, description: &str, key: &str) -> Operation {
    Operation {
        path,
        method: "get",
        id,
        tag,
        description: description.to_owned(),
        action: None,
        kind: None,
        parameters: Vec::new(),
        body: None,
        consumes: BUILT_IN.whole,
        produces: BUILT_IN.whole,
        status_codes: vec![200],
        content: ResponseContent::Definition(definition(key)),
    }
}

/// Returns the operation of a plain text document.
pub fn text(
    path: String,
    id: String,
    tag: String,
    description: &str,
    produces: &'static [&'static str],
) -> Operation {
    Operation {
        consumes: &[],
        produces,
        content: ResponseContent::Text,
        ..document(path, id, tag, description, "")
    }
}

/// Adds the operations of one resource.
struct Writer<'a> {
    api: &'a Api,
    types: &'a Types,
    resource: &'a Resource,
    operations: &'a mut Vec<Operation>,
}

/// The properties of one operation that do not follow from the resource.
struct OperationSpec<'a> {
    path: String,
    method: &'static str,
    action: &'static str,
    /// Parts of the operation's name before and after the group version.
    name_parts: (&'a str, String),
    description: String,
    kind: (&'a str, &'a str, &'a str),
    parameters: Vec<Parameter>,
    status_codes: &'a [u16],
}

impl Writer<'_> {
    fn write(&mut self) {
        let resource = self.resource;
        let root = names::root(&resource.group, &resource.version);
        let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{scope}/{}", resource.resource);
        let scoped = if resource.namespaced { "Namespaced" } else { "" };
        let can = |verb: &str| resource.verbs.iter().any(|own| own == verb);
        let kind = (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str());
        if can("list") {
            self.list(format!("{root}{collection}"), "list", format!("{scoped}{}", resource.kind));
            if resource.namespaced {
                let name = format!("{}ForAllNamespaces", resource.kind);
                self.list(format!("{root}/{}", resource.resource), "list", name);
            }
        }
        if can("watch") && !resource.custom {
            self.list(
                format!("{root}/watch{collection}"),
                "watchlist",
                format!("{scoped}{}List", resource.kind),
            );
            if resource.namespaced {
                let name = format!("{}ListForAllNamespaces", resource.kind);
                self.list(format!("{root}/watch/{}", resource.resource), "watchlist", name);
            }
            self.list(
                format!("{root}/watch{collection}/{{name}}"),
                "watch",
                format!("{scoped}{}", resource.kind),
            );
        }
        if can("create") {
            self.create(format!("{root}{collection}"), format!("{scoped}{}", resource.kind), kind);
        }
        if can("deletecollection") {
            self.delete_collection(
                format!("{root}{collection}"),
                format!("Collection{scoped}{}", resource.kind),
            );
        }
        let one = format!("{root}{collection}/{{name}}");
        self.item(one.clone(), &resource.verbs, format!("{scoped}{}", resource.kind), kind, "");
        for subresource in &resource.subresources {
            self.subresource(&one, format!("{scoped}{}", resource.kind), subresource);
        }
    }

    fn list(&mut self, path: String, action: &'static str, name: String) {
        let resource = self.resource;
        let (verb, description) = match action {
            "list" => ("list", format!("list objects of kind {}", resource.kind)),
            _ => (
                "watch",
                format!("watch {}. Deprecated: use the parameter watch of a list", resource.resource),
            ),
        };
        let kind = (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str());
        let parameters = parameter::LIST.parameters(self.types);
        let spec = OperationSpec {
            path,
            method: "get",
            action,
            name_parts: (verb, name),
            description,
            kind,
            parameters,
            status_codes: &[200],
        };
        let content = match action {
            "list" => match self.api.kind(kind.0, kind.1, kind.2) {
                Some(own) => custom_definition(kind.0, kind.1, &own.list_kind),
                None => self.definition(kind.0, kind.1, &format!("{}List", kind.2)),
            },
            _ => definition("meta/v1.WatchEvent"),
        };
        let mut operation = self.operation(spec, ResponseContent::Definition(content));
        operation.produces = self.media(kind).streamed;
        self.operations.push(operation);
    }

    fn create(&mut self, path: String, name: String, kind: (&str, &str, &str)) {
        let spec = OperationSpec {
            path,
            method: "post",
            action: "post",
            name_parts: ("create", name),
            description: format!("create {}", kind.2),
            kind,
            parameters: parameter::CREATE.parameters(self.types),
            status_codes: &[200, 201, 202],
        };
        let definition = self.definition(kind.0, kind.1, kind.2);
        let mut operation = self.operation(spec, ResponseContent::Definition(definition.clone()));
        operation.body = Some(Body { definition, required: true });
        self.operations.push(operation);
    }

    fn delete_collection(&mut self, path: String, name: String) {
        let resource = self.resource;
        let mut parameters = parameter::DELETE_COLLECTION.parameters(self.types);
        parameters.extend(parameter::DELETE.parameters(self.types));
        let spec = OperationSpec {
            path,
            method: "delete",
            action: "deletecollection",
            name_parts: ("delete", name),
            description: format!("delete a collection of {}", resource.resource),
            kind: (&resource.group, &resource.version, &resource.kind),
            parameters,
            status_codes: &[200],
        };
        let mut operation = self.operation(spec, ResponseContent::Definition(definition("meta/v1.Status")));
        operation.body = Some(Body { definition: definition("meta/v1.DeleteOptions"), required: false });
        self.operations.push(operation);
    }

    /// Adds the verbs on one object, or on a subresource of one.
    fn item(&mut self, path: String, verbs: &[String], name: String, kind: (&str, &str, &str), of: &str) {
        let whole = self.definition(kind.0, kind.1, kind.2);
        let what = if of.is_empty() {
            format!("one {}", kind.2)
        } else {
            format!("{of} of one {}", self.resource.kind)
        };
        for (verb, method, word, options, status_codes) in [
            ("get", "get", "read", None, &[200][..]),
            ("update", "put", "replace", Some(parameter::UPDATE), &[200, 201]),
            ("patch", "patch", "patch", Some(parameter::PATCH), &[200, 201]),
            ("delete", "delete", "delete", Some(parameter::DELETE), &[200, 202]),
        ] {
            if !verbs.iter().any(|own| own == verb) {
                continue;
            }
            let parameters = options.map_or_else(Vec::new, |options| options.parameters(self.types));
            let spec = OperationSpec {
                path: path.clone(),
                method,
                action: method,
                name_parts: (word, name.clone()),
                description: format!("{word} {what}"),
                kind,
                parameters,
                status_codes,
            };
            let deleted = verb == "delete" && !self.resource.returns_deleted;
            let content = if deleted { definition("meta/v1.Status") } else { whole.clone() };
            let mut operation = self.operation(spec, ResponseContent::Definition(content));
            operation.body = match verb {
                "update" => Some(Body { definition: whole.clone(), required: true }),
                "patch" => Some(Body { definition: definition("meta/v1.Patch"), required: true }),
                "delete" => Some(Body { definition: definition("meta/v1.DeleteOptions"), required: false }),
                _ => None,
            };
            if verb == "patch" {
                operation.consumes = self.media(kind).patches;
            }
            self.operations.push(operation);
        }
    }

    fn subresource(&mut self, one: &str, name: String, subresource: &Subresource) {
        let resource = self.resource;
        let or = |own: &'_ String, inherited: &'_ String| {
            if own.is_empty() { inherited.clone() } else { own.clone() }
        };
        let (group, version) = match subresource.version.is_empty() {
            true => (resource.group.clone(), resource.version.clone()),
            false => (subresource.group.clone(), or(&subresource.version, &resource.version)),
        };
        let kind = (group.as_str(), version.as_str(), subresource.kind.as_str());
        let path = format!("{one}/{}", subresource.name);
        let name = name + &capitalised(&subresource.name);
        if CONNECTIONS.contains(&subresource.name.as_str()) {
            return self.connect(path, name, subresource, kind);
        }
        if subresource.verbs.iter().any(|verb| verb == "create") {
            self.create(path.clone(), name.clone(), kind);
        }
        let first = self.operations.len();
        self.item(path, &subresource.verbs, name, kind, &subresource.name);
        if subresource.name == "log" {
            for operation in &mut self.operations[first..] {
                operation.parameters.extend(OptionsType("core/v1.PodLogOptions", &[]).parameters(self.types));
                operation.parameters.sort_by_key(|parameter| (parameter.name, parameter.location));
                operation.produces = TEXT;
                operation.content = ResponseContent::Text;
            }
        }
    }

    fn connect(&mut self, path: String, name: String, subresource: &Subresource, kind: (&str, &str, &str)) {
        let proxied = subresource.name == "proxy";
        let mut methods: Vec<&'static str> = METHODS
            .iter()
            .filter(|(verb, _)| subresource.verbs.iter().any(|own| own == verb))
            .map(|(_, method)| *method)
            .collect();
        let mut paths = vec![(path.clone(), name.clone())];
        if proxied {
            methods.extend(["head", "options"]);
            paths.push((format!("{path}/{{path}}"), format!("{name}WithPath")));
        }
        let options = format!("core/v1.{}", kind.2);
        for (path, name) in paths {
            for &method in &methods {
                let mut parameters = OptionsType(&options, &[]).parameters(self.types);
                if path.ends_with("{path}") {
                    parameters.push(parameter::path("path", "Path of the forwarded request."));
                }
                let spec = OperationSpec {
                    path: path.clone(),
                    method,
                    action: "connect",
                    name_parts: ("connect", capitalised(method) + &name),
                    description: format!("connect to {} of one {}", subresource.name, self.resource.kind),
                    kind,
                    parameters,
                    status_codes: &[200],
                };
                let mut operation = self.operation(spec, ResponseContent::Text);
                operation.parameters.retain(|parameter| parameter.name != "pretty");
                operation.produces = ANYTHING;
                self.operations.push(operation);
            }
        }
    }

    fn operation(&self, spec: OperationSpec<'_>, content: ResponseContent) -> Operation {
        let resource = self.resource;
        let (verb, name) = spec.name_parts;
        let version = capitalised(&resource.version);
        let mut parameters = spec.parameters;
        parameters.push(parameter::query("pretty", "string"));
        if spec.path.contains("{name}") {
            parameters.push(parameter::path("name", format!("name of the {}", spec.kind.2)));
        }
        if spec.path.contains("{namespace}") {
            parameters.push(parameter::path("namespace", "Namespace of the objects."));
        }
        // An option of two sources is one parameter.
        parameters.sort_by_key(|parameter| (parameter.name, parameter.location));
        parameters.dedup();
        Operation {
            path: spec.path,
            method: spec.method,
            id: format!("{verb}{}{version}{name}", group_in_operation(&resource.group)),
            tag: names::tag(&resource.group, &resource.version),
            description: spec.description,
            action: Some(spec.action),
            kind: Some((spec.kind.0.to_owned(), spec.kind.1.to_owned(), spec.kind.2.to_owned())),
            parameters,
            body: None,
            consumes: ANYTHING,
            produces: self.media(spec.kind).whole,
            status_codes: spec.status_codes.to_vec(),
            content,
        }
    }

    fn media(&self, kind: (&str, &str, &str)) -> &'static Media {
        // Metrics are available as protobuf, like built-in kinds.
        let own = self.api.kind(kind.0, kind.1, kind.2).filter(|own| own.group != metrics::GROUP);
        if own.is_some() { &CUSTOM } else { &BUILT_IN }
    }

    /// Returns the definition name of any kind.
    fn definition(&self, group: &str, version: &str, kind: &str) -> String {
        let single = kind.strip_suffix("List").unwrap_or(kind);
        if self.api.kind(group, version, kind).or_else(|| self.api.kind(group, version, single)).is_some() {
            return custom_definition(group, version, kind);
        }
        match self.types.by_kind(group, version, kind) {
            Some(id) => definition(self.types[id].key),
            None => custom_definition(group, version, kind),
        }
    }
}
