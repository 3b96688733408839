//! `atoll sim fault …`, at a cluster that runs.

use http::Method;
use serde_json::Value;

use super::simulation::PATH;
use crate::advice::Failure;
use crate::client::{Client, Problem};
use crate::command::{Connection, FaultCommand};
use crate::kubeconfig::Kubeconfig;
use crate::output::{self, Format};

pub async fn run(command: FaultCommand) -> Result<(), String> {
    match command {
        FaultCommand::Add(kind) => {
            let (fault, connection) = kind.parts();
            let added = call(&connection, Method::POST, PATH, Some(&fault)).await?;
            println!("Fault {}: {}.", added["id"], text(&added));
        }
        FaultCommand::List { shown, connection } => {
            let list = call(&connection, Method::GET, PATH, None).await?;
            let faults = list["faults"].as_array().map(Vec::as_slice).unwrap_or_default();
            output::print(&match shown.output {
                Some(Format::Json) => output::json(&list),
                Some(Format::Yaml) => output::yaml(&list)?,
                Some(Format::Name) => faults.iter().map(|fault| format!("{}\n", fault["id"])).collect(),
                None | Some(Format::Wide) if faults.is_empty() => "Nothing goes wrong.\n".to_string(),
                None | Some(Format::Wide) => {
                    faults.iter().map(|fault| format!("{}  {}\n", fault["id"], text(fault))).collect()
                }
            });
        }
        FaultCommand::Remove { id, connection } => {
            call(&connection, Method::DELETE, &format!("{PATH}/{id}"), None).await?;
            println!("Fault {id} is over.");
        }
        FaultCommand::Clear { connection } => {
            let cleared = call(&connection, Method::DELETE, PATH, None).await?;
            println!("Nothing goes wrong any more; faults ended: {}.", cleared["removed"]);
        }
    }
    Ok(())
}

fn text(fault: &Value) -> &str {
    fault["description"].as_str().unwrap_or_default()
}

/// Goes by the way that is open whatever happens, where the kubeconfig knows of one.
async fn call(
    connection: &Connection,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, String> {
    let mut context = Kubeconfig::load(connection)?.context()?;
    if let Some(control) = context.control.take() {
        context.server = control;
    }
    let client = Client::new(&context)?;
    client.call(method, path, body).await.map_err(|problem| match problem {
        Problem::Elsewhere(_) => {
            let what = format!("{} is no simulated cluster", client.origin);
            Failure::new(what, "choose one with --context").into()
        }
        problem => problem.into(),
    })
}
