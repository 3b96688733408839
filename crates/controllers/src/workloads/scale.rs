//! Reads and writes the scale subresource of any kind.

// upstream: pkg/controller/podautoscaler/horizontal.go
// upstream: pkg/controller/disruption/disruption.go
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go

use atoll_client::path::{self, encoded};
use atoll_informer::{ApiScope, Key, Resource, resources};
use atoll_meta::selector::LabelOperator;
use atoll_meta::{LabelSelector, Status, object};
use serde_json::{Map, Value, json};

/// Kinds that need no discovery.
static KNOWN: [&Resource; 4] = [
    &resources::DEPLOYMENTS,
    &resources::REPLICA_SETS,
    &resources::STATEFUL_SETS,
    &resources::REPLICATION_CONTROLLERS,
];

/// Returns the resource of a kind, and whether it has a scale. Errors are those of upstream's REST mapper.
pub async fn resource_of(
    api: &ApiScope,
    workspace: &str,
    api_version: &str,
    kind: &str,
) -> Result<(Resource, bool), String> {
    let Some((group, version)) = object::split_api_version(api_version) else {
        return Err(format!("unexpected GroupVersion string: {api_version}"));
    };
    let is_it = |known: &&&Resource| known.group == group && known.version == version && known.kind == kind;
    if let Some(known) = KNOWN.iter().find(is_it) {
        return Ok(((*known).clone(), true));
    }
    let missing = || format!("no matches for kind \"{kind}\" in version \"{api_version}\"");
    find(api, workspace, api_version, kind).await?.ok_or_else(missing)
}

/// Returns the resource of a kind by its group, in the preferred version or another one.
pub async fn resource_of_kind(
    api: &ApiScope,
    workspace: &str,
    group: &str,
    kind: &str,
) -> Result<Resource, String> {
    if let Some(known) = KNOWN.iter().find(|known| known.group == group && known.kind == kind) {
        return Ok((*known).clone());
    }
    let missing = || format!("no matches for kind \"{kind}\" in group \"{group}\"");
    if group.is_empty() {
        return find(api, workspace, "v1", kind).await?.map(|(resource, _)| resource).ok_or_else(missing);
    }
    let root = api.root(workspace).map_err(|status| status.message().to_string())?;
    let served = match api.client().get(&format!("{root}/apis/{}", encoded(group))).await {
        Ok(served) => served,
        Err(status) if status.code() == 404 => return Err(missing()),
        Err(status) => return Err(status.message().to_string()),
    };
    let others = served["versions"].as_array().into_iter().flatten();
    for version in std::iter::once(&served["preferredVersion"]).chain(others) {
        let api_version = version["groupVersion"].as_str().unwrap_or_default();
        if let Some((resource, _)) = find(api, workspace, api_version, kind).await? {
            return Ok(resource);
        }
    }
    Err(missing())
}

/// Looks a kind up in discovery.
async fn find(
    api: &ApiScope,
    workspace: &str,
    api_version: &str,
    kind: &str,
) -> Result<Option<(Resource, bool)>, String> {
    let Some((group, version)) = object::split_api_version(api_version) else { return Ok(None) };
    let base = path::group_version(group, version);
    let root = api.root(workspace).map_err(|status| status.message().to_string())?;
    let list = match api.client().get(&format!("{root}{base}")).await {
        Ok(list) => list,
        Err(status) if status.code() == 404 => return Ok(None),
        Err(status) => return Err(status.message().to_string()),
    };
    let entries = || list["resources"].as_array().into_iter().flatten();
    let own = |entry: &&Value| {
        entry["kind"] == kind && entry["name"].as_str().is_some_and(|name| !name.contains('/'))
    };
    let Some(entry) = entries().find(own) else { return Ok(None) };
    let plural = entry["name"].as_str().unwrap_or_default().to_string();
    let scale = format!("{plural}/scale");
    let has_scale = entries().any(|entry| entry["name"] == *scale && entry["kind"] == "Scale");
    let resource = Resource {
        group: group.to_string().into(),
        version: version.to_string().into(),
        plural: plural.into(),
        kind: kind.to_string().into(),
        namespaced: entry["namespaced"] == true,
    };
    Ok(Some((resource, has_scale)))
}

/// Formats a resource as `deployments.apps`.
pub fn group_resource(resource: &Resource) -> String {
    match resource.group.is_empty() {
        true => resource.plural.to_string(),
        false => format!("{}.{}", resource.plural, resource.group),
    }
}

/// Normalizes the selector of a scale as a conversion to a label selector object and back does.
pub fn plain_selector(text: &str) -> Result<String, String> {
    let parsed = LabelSelector::parse(text)
        .map_err(|problem| format!("couldn't parse the selector string \"{text}\": {problem}"))?;
    let (mut labels, mut expressions) = (Map::new(), Vec::new());
    for requirement in parsed.requirements() {
        let operator = match requirement.operator() {
            LabelOperator::Equals | LabelOperator::DoubleEquals => {
                let value = requirement.values().first().cloned().unwrap_or_default();
                labels.insert(requirement.key().into(), value.into());
                continue;
            }
            LabelOperator::In => "In",
            LabelOperator::NotIn => "NotIn",
            LabelOperator::Exists => "Exists",
            LabelOperator::DoesNotExist => "DoesNotExist",
            LabelOperator::GreaterThan => return Err("\"gt\" isn't supported in label selectors".into()),
            LabelOperator::LessThan => return Err("\"lt\" isn't supported in label selectors".into()),
            LabelOperator::NotEquals => return Err("\"!=\" is not a valid label selector operator".into()),
        };
        expressions.push(json!({
            "key": requirement.key(), "operator": operator, "values": requirement.values(),
        }));
    }
    let object = json!({ "matchLabels": labels, "matchExpressions": expressions });
    LabelSelector::from_object(&object).map(|selector| selector.to_string())
}

pub async fn read(api: &ApiScope, resource: &Resource, key: &Key) -> Result<Value, Status> {
    api.client().get(&format!("{}/scale", api.path(resource, key)?)).await
}

pub async fn write(api: &ApiScope, resource: &Resource, key: &Key, scale: &Value) -> Result<Value, Status> {
    api.client().update(&format!("{}/scale", api.path(resource, key)?), scale).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_normalized() {
        for (text, expected) in [
            ("", Ok("")),
            ("b==1, a = 2", Ok("a=2,b=1")),
            ("a in (y,x),!b", Ok("a in (x,y),!b")),
            ("a!=1", Err("\"!=\" is not a valid label selector operator")),
            ("a>1", Err("\"gt\" isn't supported in label selectors")),
            (
                "=,",
                Err(
                    "couldn't parse the selector string \"=,\": found '=', expected: !, identifier, or 'end of string'",
                ),
            ),
        ] {
            let found = plain_selector(text);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
