//! `atoll pause` and `atoll resume`: pauses a cluster, or a workspace and all workspaces below it.

use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_fleet::{Brake, brake};
use atoll_meta::time;
use serde_json::{Value, json};

use crate::advice::{Failure, invocation};
use crate::cluster::Api;
use crate::cluster::fleet::Fleet;
use crate::cluster::in_workspace;
use crate::command::{PauseOptions, Paused};
use crate::output::complain;
use crate::{output, process};

pub fn run(options: PauseOptions) -> Result<(), String> {
    process::ask(async { pause(&options).await.map_err(String::from) })
}

pub fn resume(what: Paused) -> Result<(), String> {
    process::ask(async { go_on(&what).await.map_err(String::from) })
}

async fn pause(options: &PauseOptions) -> Result<(), Failure> {
    let fleet = Fleet::open(&options.what.connection)?;
    let wanted = Brake { by: who(&fleet.api).await, reason: options.reason.clone(), since: now() };
    let (what, how, found) = match &options.what.cluster {
        Some(name) => {
            let cluster = fleet.get(name).await?;
            let found = Brake::of_cluster(&cluster);
            if found.is_none() {
                let patch = json!({
                    "metadata": { "annotations": { brake::ANNOTATION: wanted.text() } }, "spec": { "paused": true },
                });
                fleet.change(name, &patch).await?;
            }
            (format!("cluster {name}"), format!("--cluster {name}"), found)
        }
        None => {
            let (path, api) = workspace(&fleet, &options.what).await?;
            let namespace =
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
            api.create_if_absent("/api/v1/namespaces", &namespace).await?;
            let found = match api.create(&collection(), &wanted.config_map()).await {
                Ok(_) => None,
                Err(problem) if problem.is("AlreadyExists") => {
                    api.find(&at()).await?.map(|found| Brake::of_config_map(&found))
                }
                Err(problem) => return Err(problem.into()),
            };
            (format!("workspace {path}"), format!("--workspace {path}"), found)
        }
    };
    let how = format!("{} resume {how}", invocation());
    output::print(&match found {
        Some(found) => format!("Already paused: {}.\n", found.why(&what, &how)),
        None => format!(
            "Paused {what}: nothing is placed, moved or deleted there until resumed. Workloads keep running, and updates of placed \
             objects are still applied.\nResume with: {how}\n"
        ),
    });
    Ok(())
}

async fn go_on(what: &Paused) -> Result<(), Failure> {
    let fleet = Fleet::open(&what.connection)?;
    let (what, was_paused) = match &what.cluster {
        Some(name) => {
            let was_paused = Brake::of_cluster(&fleet.get(name).await?).is_some();
            if was_paused {
                let patch = json!({
                    "metadata": { "annotations": { brake::ANNOTATION: null } }, "spec": { "paused": null },
                });
                fleet.change(name, &patch).await?;
            }
            (format!("cluster {name}"), was_paused)
        }
        None => {
            let (path, api) = workspace(&fleet, what).await?;
            let was_paused = api.find(&at()).await?.is_some();
            api.delete(&at()).await?;
            (format!("workspace {path}"), was_paused)
        }
    };
    if !was_paused {
        output::print(&format!("{what} is not paused itself.\n"));
        complain!(
            "If changes are still refused, a workspace above it or a cluster is paused; the refusal names it."
        );
        return Ok(());
    }
    output::print(&format!("Resumed {what}. Delayed changes are applied now.\n"));
    Ok(())
}

/// The path and API of the selected workspace, which must exist.
async fn workspace(fleet: &Fleet, what: &Paused) -> Result<(String, Api), Failure> {
    let session = &fleet.session;
    let path = match &what.workspace {
        Some(path) => session.resolve(path).await?,
        None => session.current.clone(),
    };
    let api = Api::above(&session.config.context()?, &in_workspace(&path, ""))?;
    match api.get("/api/v1/namespaces?limit=1").await {
        Err(problem) if problem.is("NotFound") => Err(session.not_found(&path, problem).await),
        _ => Ok((path, api)),
    }
}

fn collection() -> String {
    format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps")
}

fn at() -> String {
    format!("{}/{}", collection(), brake::NAME)
}

fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    time::format(since.map_or(0, |since| since.as_secs().cast_signed()))
}

/// The name of the current user on the server, for messages.
async fn who(api: &Api) -> String {
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let answer = api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await;
    let name = |answer: Value| answer["status"]["userInfo"]["username"].as_str().map(str::to_string);
    answer.ok().and_then(name).unwrap_or_default()
}
