//! `atoll place`: shows and sets the placements of objects.

pub mod by_intent;
pub mod intent;
pub mod move_to;
pub mod resources;
mod selection;
pub mod shares;

use atoll_client::path;
use atoll_fleet::placement::Share;
use atoll_placement::intent::Intent;
use atoll_scheduler::AWAY;
use http::Method;
use serde_json::{Value, json};

use self::resources::ApiResource;
use self::selection::SelectedObject;
use crate::advice::{Failure, invocation};
use crate::cluster::{Api, cluster_names, in_workspace, suggestion};
use crate::command::PlaceOptions;
use crate::output;
use crate::process;
use crate::workspace::session::Session;
use atoll_joining::client::Problem;

pub const DEFAULT_NAMESPACE: &str = "default";

pub fn run(options: PlaceOptions) -> Result<(), String> {
    process::run_command(async { place(&options).await.map_err(String::from) })
}

async fn place(options: &PlaceOptions) -> Result<(), Failure> {
    let session = Session::open(&options.connection)?;
    let context = session.config.context()?;
    let api = Api::above(&context, &in_workspace(&session.current, ""))?;
    let resources = discover(&api).await?;
    let namespace =
        options.namespace.as_deref().or(context.namespace.as_deref()).unwrap_or(DEFAULT_NAMESPACE);
    // Resolve all arguments before the first placement.
    let wanted = selection::find(&api, &resources, options, namespace).await?;
    if wanted.is_empty() {
        eprintln!("No objects match in namespace {namespace}.");
        return Ok(());
    }
    let wanted_on = options.intent()?;
    if let Some(intent) = &wanted_on {
        check_clusters(&session, intent).await?;
    }
    for SelectedObject { resource, namespace, name } in wanted {
        let path = path::object(&resource.collection(&namespace), &name);
        let current = match api.get(&format!("{path}/placement")).await {
            Ok(current) => current,
            Err(problem) => return Err(placement_failure(&api, resource, &path, problem).await),
        };
        let answer = match &wanted_on {
            None => current,
            Some(intent) if by_intent::is_scheduled(&current) => {
                let request = by_intent::PlaceRequest { api: &api, resource, path: &path, intent, options };
                with_leaving(request.place(&current).await?, &current)
            }
            Some(intent) => place_by_hand(&api, resource, &path, intent, options, &current).await?,
        };
        let text = placement_summary(resource, &namespace, &name, &answer);
        output::print(&match options.dry_run {
            true => text.replace(".\n", " (dry run).\n"),
            false => text,
        });
    }
    Ok(())
}

/// Writes the placement itself: of kinds that no scheduler places, and without a scheduler.
async fn place_by_hand(
    api: &Api,
    resource: &ApiResource,
    path: &str,
    intent: &Intent,
    options: &PlaceOptions,
    current: &Value,
) -> Result<Value, Failure> {
    match intent.is_none() {
        true => intent::write_none(api, resource, path, options.dry_run).await?,
        false => intent::remove(api, resource, path, options.dry_run).await?,
    }
    let duplicate = intent.is_duplicate().then_some(true);
    let shares = by_intent::shares(intent);
    let mut patch = json!({ "spec": { "clusters": shares, "by": "hand", "duplicate": duplicate } });
    if options.force {
        patch["spec"]["force"] = true.into();
    }
    let query = if options.dry_run { "?dryRun=All" } else { "" };
    match api.merge(&format!("{path}/placement{query}"), &patch).await {
        Ok(answer) if intent.is_none() => Ok(with_leaving(answer, current)),
        Ok(answer) => Ok(answer),
        Err(problem) => Err(placement_failure(api, resource, path, problem).await),
    }
}

/// Lists all resources that a server serves.
pub async fn discover(api: &Api) -> Result<Vec<ApiResource>, Failure> {
    let mut found = Vec::new();
    for path in resources::DOCUMENTS {
        let document = api.call_as(Method::GET, path, resources::ACCEPT, None).await?;
        if document["kind"] != "APIGroupDiscoveryList" {
            return Err(Failure::new(
                format!("{} does not support aggregated discovery", api.client().origin),
                "Kubernetes v1.26 or newer is required",
            ));
        }
        found.extend(resources::read(&document));
    }
    Ok(found)
}

pub fn parse_object_arg<'a, 'o>(
    resources: &'a [ApiResource],
    object: &'o str,
) -> Result<(&'a ApiResource, &'o str), Failure> {
    let parts = object.split_once('/').filter(|(_, name)| !name.is_empty() && !name.contains('/'));
    let Some((word, name)) = parts else {
        return Err(Failure::new(
            format!("{object:?} does not name an object"),
            format!("use RESOURCE/NAME, as in: {} place deployment/web --on east", invocation()),
        ));
    };
    let found = resources::resolve(resources, word);
    let found = found.ok_or_else(|| {
        let what = format!("the server has no resource type {word:?}");
        match resources::suggestion(resources, word) {
            Some(near) => Failure::new(what, format!("did you mean {near}/{name}?")),
            None => Failure::new(what, "list the resource types with: kubectl api-resources"),
        }
    })?;
    Ok((found, name))
}

/// Checks that the clusters are registered in the workspace or above it.
async fn check_clusters(session: &Session, intent: &Intent) -> Result<(), Failure> {
    let mut names = Vec::new();
    let mut workspace = Some(session.current.as_str());
    while let Some(path) = workspace {
        match cluster_names(session, path).await {
            Ok(more) => names.extend(more),
            // The user may not list the clusters there; the server decides.
            Err(problem) if problem.is("Forbidden") => return Ok(()),
            Err(problem) => return Err(session.not_found(path, problem).await),
        }
        workspace = path.rsplit_once(':').map(|(parent, _)| parent);
    }
    match intent.clusters().find(|name| !names.iter().any(|known| known == name)) {
        None => Ok(()),
        Some(name) => Err(Failure::new(
            format!("there is no cluster {name} for {}", session.current),
            suggestion(name, &names, &session.current),
        )),
    }
}

/// The failure of a placement: the object may not exist, or its kind cannot be placed.
pub async fn placement_failure(api: &Api, resource: &ApiResource, path: &str, problem: Problem) -> Failure {
    if !problem.is("NotFound") && !problem.is("MethodNotAllowed") {
        return problem.into();
    }
    match api.get(path).await {
        Err(missing) => missing.into(),
        Ok(_) => Failure::new(
            format!("{} cannot be placed on clusters", resource.qualified()),
            "place their owner instead",
        ),
    }
}

/// Adds the clusters of an earlier placement to those that the object is being removed from.
fn with_leaving(mut placement: Value, before: &Value) -> Value {
    let mut names: Vec<Value> = placement["status"]["leaving"].as_array().cloned().unwrap_or_default();
    let is_there = |name: &Value| {
        let shares = placement["spec"]["clusters"].as_array().into_iter().flatten();
        shares.into_iter().any(|share| share["name"] == *name)
    };
    for share in before["spec"]["clusters"].as_array().into_iter().flatten() {
        if !names.contains(&share["name"]) && !is_there(&share["name"]) {
            names.push(share["name"].clone());
        }
    }
    if !names.is_empty() {
        placement["status"]["leaving"] = names.into();
    }
    placement
}

fn placement_summary(resource: &ApiResource, namespace: &str, name: &str, placement: &Value) -> String {
    let shares: Vec<Share> =
        serde_json::from_value(placement["spec"]["clusters"].clone()).unwrap_or_default();
    let leaving: Vec<Share> = placement["status"]["leaving"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| Some(Share { name: name.as_str()?.to_string(), ..Share::default() }))
        .collect();
    let slash = if namespace.is_empty() { "" } else { "/" };
    let mut text =
        format!("{} {namespace}{slash}{name} is placed on {}", resource.kind, shares::format_list(&shares));
    let target: Vec<Share> = serde_json::from_value(placement["spec"]["target"].clone()).unwrap_or_default();
    let is_away = placement["spec"]["phase"] == AWAY;
    match placement["spec"]["target"].is_null() {
        true => {}
        false if is_away => {
            text.push_str(&format!("; it returns to {} when that is ready", shares::format_list(&target)));
        }
        false => text.push_str(&shares::destination(&shares, &target)),
    }
    if !leaving.is_empty() {
        text.push_str(&format!("; it is being removed from {}", shares::format_list(&leaving)));
    }
    text + ".\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_summarized_in_a_sentence() {
        let deployments = ApiResource { kind: "Deployment".into(), ..ApiResource::default() };
        let placement = json!({
            "spec": { "clusters": [{ "name": "east", "replicas": 3 }, { "name": "west" }], "by": "hand" },
            "status": { "leaving": ["north"] },
        });
        assert_eq!(
            placement_summary(&deployments, "default", "web", &placement),
            "Deployment default/web is placed on east (3) and west; it is being removed from north.\n"
        );
        assert_eq!(
            placement_summary(&deployments, "", "web", &json!({})),
            "Deployment web is placed on no cluster.\n"
        );
    }

    #[test]
    fn arguments_are_resource_and_name() {
        for object in ["web", "deployment/", "a/b/c", "/web"] {
            assert!(parse_object_arg(&[], object).is_err(), "{object}");
        }
        let failure = parse_object_arg(&[], "thing/web").expect_err("there are no things");
        assert_eq!(failure.message, "the server has no resource type \"thing\"");
    }
}
