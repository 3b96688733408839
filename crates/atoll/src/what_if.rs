//! `atoll what-if`: what would move where, without changing anything.

use std::io::Read;
use std::path::Path;

use atoll_client::path;
use atoll_fleet::placement::names_of;
use atoll_fleet::what_if::{PlacementEffect, ScaleChange, WhatIf, WhatIfAnswer};
use atoll_meta::object;
use serde_json::Value;

use crate::advice::{Failure, invocation, pluralize};
use crate::cluster::{Api, in_workspace};
use crate::command::WhatIfOptions;
use crate::output::{self, OutputFormat, table};
use crate::place::{self, DEFAULT_NAMESPACE};
use crate::process;
use crate::style::Paint;
use crate::workspace::session::Session;

pub const PATH: &str = "/services/what-if";

pub fn run(options: WhatIfOptions) -> Result<(), String> {
    process::run_command(async { what_if(&options).await.map_err(String::from) })
}

async fn what_if(options: &WhatIfOptions) -> Result<(), Failure> {
    let session = Session::open(&options.connection)?;
    let context = session.config.context()?;
    let api = Api::above(&context, &in_workspace(&session.current, ""))?;
    let namespace =
        options.namespace.as_deref().or(context.namespace.as_deref()).unwrap_or(DEFAULT_NAMESPACE);
    let change = change(&api, options, namespace).await?;
    let body = serde_json::to_value(&change).unwrap_or_default();
    let answer = api.create(PATH, &body).await?;
    match options.shown.output {
        Some(OutputFormat::Json) => output::print(&output::json(&answer)),
        Some(OutputFormat::Yaml) => output::print(&output::yaml(&answer)?),
        _ => {
            let answer: WhatIfAnswer = serde_json::from_value(answer).unwrap_or_default();
            output::print(&render(&answer, Paint::stdout()));
        }
    }
    Ok(())
}

/// Reads the change that the arguments describe.
async fn change(api: &Api, options: &WhatIfOptions, namespace: &str) -> Result<WhatIf, Failure> {
    let missing = |what: &str, example: &str| {
        Failure::new(format!("{what} is missing"), format!("as in: {} what-if {example}", invocation()))
    };
    let name = options.name.as_deref();
    match options.change.as_str() {
        "drain" => {
            let name = name.ok_or_else(|| missing("the name of the cluster", "drain east"))?;
            Ok(WhatIf { drain: Some(name.to_string()), ..WhatIf::default() })
        }
        "lose" => {
            let name = name.ok_or_else(|| missing("the name of the cluster", "lose east"))?;
            Ok(WhatIf { lose: Some(name.to_string()), ..WhatIf::default() })
        }
        "policy" => {
            let file = options.filename.as_deref();
            let file = file.ok_or_else(|| missing("the file of the policy", "policy -f policy.yaml"))?;
            Ok(WhatIf { policy: policy(file, namespace)?, ..WhatIf::default() })
        }
        "scale" => {
            let example = "scale deploy/web --replicas 8";
            let workload = name.ok_or_else(|| missing("the workload", example))?;
            Ok(WhatIf { scale: Some(scale(api, options, workload, namespace).await?), ..WhatIf::default() })
        }
        workload if workload.contains('/') => {
            Ok(WhatIf { scale: Some(scale(api, options, workload, namespace).await?), ..WhatIf::default() })
        }
        other => Err(Failure::new(
            format!("{other:?} is not a change"),
            format!("see: {} what-if --help", invocation()),
        )),
    }
}

async fn scale(
    api: &Api,
    options: &WhatIfOptions,
    workload: &str,
    namespace: &str,
) -> Result<ScaleChange, Failure> {
    let resources = place::discover(api).await?;
    let (resource, name) = place::parse_object_arg(&resources, workload)?;
    let given = options.replicas.as_deref().unwrap_or_default();
    let wrong = || {
        let example = format!("{} what-if {workload} --replicas 8", invocation());
        Failure::new(format!("{given:?} is not a number of replicas"), format!("as in: {example}"))
    };
    let number: i64 = given.parse().map_err(|_| wrong())?;
    let replicas = match given.starts_with(['+', '-']) {
        true => {
            let path = format!("{}/scale", path::object(&resource.collection(namespace), name));
            let now = api.get(&path).await?["spec"]["replicas"].as_i64().unwrap_or(0);
            now.saturating_add(number).max(0)
        }
        false => number,
    };
    Ok(ScaleChange {
        group: resource.group.clone(),
        resource: resource.name.clone(),
        namespace: namespace.to_string(),
        name: name.to_string(),
        replicas,
    })
}

fn policy(file: &Path, namespace: &str) -> Result<Value, Failure> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::new(format!("{} cannot be read: {error}", file.display()), "give a file with one policy")
    };
    let mut text = String::new();
    let read = match file == Path::new("-") {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(file).map(|content| text = content),
    };
    read.map_err(|error| unreadable(&error))?;
    let mut policy: Value = serde_saphyr::from_str(&text).map_err(|error| unreadable(&error))?;
    if object::kind(&policy) == "PlacementPolicy" && object::namespace(&policy).is_empty() {
        policy["metadata"]["namespace"] = namespace.into();
    }
    Ok(policy)
}

fn render(answer: &WhatIfAnswer, paint: Paint) -> String {
    let mut text = paused(answer);
    match answer.changes.is_empty() {
        true => text.push_str("Nothing would move.\n"),
        false => text.push_str(&effects(&answer.changes, paint)),
    }
    text + &others(answer) + "Nothing was changed.\n"
}

/// Says that nothing happens during a pause.
pub fn paused(answer: &WhatIfAnswer) -> String {
    match answer.paused.as_str() {
        "" => String::new(),
        why => format!("Nothing moves now: {why}. After that:\n"),
    }
}

/// A table of objects, with their clusters now and then.
pub fn effects(changes: &[PlacementEffect], paint: Paint) -> String {
    let headers = ["KIND", "NAMESPACE", "NAME", "NOW", "THEN", "WHY NOT"].map(String::from);
    let shares = |shares: &[_]| match shares.is_empty() {
        true => "-".to_string(),
        false => names_of(shares),
    };
    let row = |effect: &PlacementEffect| {
        vec![
            effect.kind.clone(),
            effect.namespace.clone(),
            effect.name.clone(),
            shares(&effect.before),
            shares(&effect.after),
            effect.reason.clone(),
        ]
    };
    table(&headers, &changes.iter().map(row).collect::<Vec<_>>(), paint)
}

/// Says how many objects of other workspaces would move.
pub fn others(answer: &WhatIfAnswer) -> String {
    let count = answer.others.and_then(|others| u64::try_from(others).ok()).filter(|others| *others > 0);
    count
        .map(|count| format!("{} of other workspaces would move.\n", pluralize(count, "object")))
        .unwrap_or_default()
}
