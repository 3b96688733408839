//! `atoll pause` and `atoll resume`: pauses a cluster, or a workspace and all workspaces below it.

use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_fleet::{Pause, pause};
use atoll_informer::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::advice::{Failure, invocation};
use crate::cluster::Api;
use crate::cluster::control_plane_connection::ControlPlaneConnection;
use crate::cluster::in_workspace;
use crate::command::{PauseOptions, PauseScope};
use crate::output::errln;
use crate::{output, process};

pub fn run(options: PauseOptions) -> Result<(), String> {
    process::run_command(async { pause(&options).await.map_err(String::from) })
}

pub fn resume(scope: PauseScope) -> Result<(), String> {
    process::run_command(async { resume_scope(&scope).await.map_err(String::from) })
}

async fn pause(options: &PauseOptions) -> Result<(), Failure> {
    let fleet = ControlPlaneConnection::open(&options.scope.connection)?;
    let wanted = Pause { by: current_user(&fleet.api).await, reason: options.reason.clone(), since: now() };
    let (scope, how, found) = match &options.scope.cluster {
        Some(name) => {
            let cluster = fleet.get(name).await?;
            let found = Pause::of_cluster(&cluster);
            if found.is_none() {
                let patch = json!({
                    "metadata": { "annotations": { pause::ANNOTATION: wanted.text() } }, "spec": { "paused": true },
                });
                fleet.change(name, &patch).await?;
            }
            (format!("cluster {name}"), format!("--cluster {name}"), found)
        }
        None => {
            let (path, api) = workspace(&fleet, &options.scope).await?;
            let namespace =
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
            api.create_if_absent("/api/v1/namespaces", &namespace).await?;
            let found = match api.create(&config_maps_path(), &wanted.config_map()).await {
                Ok(_) => None,
                Err(problem) if problem.is("AlreadyExists") => {
                    api.find(&config_map_path()).await?.map(|found| Pause::of_config_map(&found))
                }
                Err(problem) => return Err(problem.into()),
            };
            (format!("workspace {path}"), format!("--workspace {path}"), found)
        }
    };
    let how = format!("{} resume {how}", invocation());
    output::print(&match found {
        Some(found) => format!("Already paused: {}.\n", found.why(&scope, &how)),
        None => format!(
            "Paused {scope}: nothing is placed, moved or deleted there until resumed. Workloads keep running, and updates of placed \
             objects are still applied.\nResume with: {how}\n"
        ),
    });
    Ok(())
}

async fn resume_scope(scope: &PauseScope) -> Result<(), Failure> {
    let fleet = ControlPlaneConnection::open(&scope.connection)?;
    let (scope, was_paused) = match &scope.cluster {
        Some(name) => {
            let was_paused = Pause::of_cluster(&fleet.get(name).await?).is_some();
            if was_paused {
                let patch = json!({
                    "metadata": { "annotations": { pause::ANNOTATION: null } }, "spec": { "paused": null },
                });
                fleet.change(name, &patch).await?;
            }
            (format!("cluster {name}"), was_paused)
        }
        None => {
            let (path, api) = workspace(&fleet, scope).await?;
            let was_paused = api.find(&config_map_path()).await?.is_some();
            api.delete(&config_map_path()).await?;
            (format!("workspace {path}"), was_paused)
        }
    };
    if !was_paused {
        output::print(&format!("{scope} is not paused itself.\n"));
        errln!(
            "If changes are still refused, a workspace above it or a cluster is paused; the refusal names it."
        );
        return Ok(());
    }
    output::print(&format!("Resumed {scope}. Delayed changes are applied now.\n"));
    Ok(())
}

/// The path and API of the selected workspace, which must exist.
async fn workspace(fleet: &ControlPlaneConnection, scope: &PauseScope) -> Result<(String, Api), Failure> {
    let session = &fleet.session;
    let path = match &scope.workspace {
        Some(path) => session.resolve(path).await?,
        None => session.current.clone(),
    };
    let api = Api::above(&session.config.context()?, &in_workspace(&path, ""))?;
    match api.get("/api/v1/namespaces?limit=1").await {
        Err(problem) if problem.is("NotFound") => Err(session.not_found(&path, problem).await),
        _ => Ok((path, api)),
    }
}

fn config_maps_path() -> String {
    format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps")
}

fn config_map_path() -> String {
    format!("{}/{}", config_maps_path(), pause::NAME)
}

fn now() -> String {
    SystemClock.now().to_time()
}

/// The name of the current user on the server, for messages.
async fn current_user(api: &Api) -> String {
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let answer = api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await;
    let name = |answer: Value| answer["status"]["userInfo"]["username"].as_str().map(str::to_string);
    answer.ok().and_then(name).unwrap_or_default()
}
