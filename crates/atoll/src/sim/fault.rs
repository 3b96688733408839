//! `atoll sim fault …`: changes the faults of a running simulated cluster or of simulated nodes.

use atoll_meta::Status;
use atoll_sim::Fault;
use http::Method;
use serde_json::{Value, json};

use super::nodes::fault_store;
use super::simulation::{PATH, fault_json};
use crate::advice::Failure;
use crate::command::{Connection, FaultCommand};
use crate::kubeconfig::Kubeconfig;
use crate::output::outln;
use crate::output::{self, OutputFormat};
use atoll_joining::client::{Client, Problem};

/// Attempts at an update that conflicts with other writers.
const ATTEMPTS: usize = 5;

pub async fn run(command: FaultCommand) -> Result<(), String> {
    match command {
        FaultCommand::Add(kind) => {
            let (fault, connection) = kind.parts();
            let added = call(&connection, Method::POST, PATH, Some(&fault)).await?;
            outln!("Fault {}: {}.", added["id"], text(&added));
        }
        FaultCommand::List { shown, connection } => {
            let list = call(&connection, Method::GET, PATH, None).await?;
            let faults = list["faults"].as_array().map(Vec::as_slice).unwrap_or_default();
            output::print(&match shown.output {
                Some(OutputFormat::Json) => output::json(&list),
                Some(OutputFormat::Yaml) => output::yaml(&list)?,
                Some(OutputFormat::Name) => faults.iter().map(|fault| format!("{}\n", fault["id"])).collect(),
                None | Some(OutputFormat::Wide) if faults.is_empty() => "There are no faults.\n".to_string(),
                None | Some(OutputFormat::Wide) => {
                    faults.iter().map(|fault| format!("{}  {}\n", fault["id"], text(fault))).collect()
                }
            });
        }
        FaultCommand::Remove { id, connection } => {
            call(&connection, Method::DELETE, &format!("{PATH}/{id}"), None).await?;
            outln!("Fault {id} was removed.");
        }
        FaultCommand::Clear { connection } => {
            let cleared = call(&connection, Method::DELETE, PATH, None).await?;
            outln!("All faults were removed: {}.", cleared["removed"]);
        }
    }
    Ok(())
}

fn text(fault: &Value) -> &str {
    fault["description"].as_str().unwrap_or_default()
}

/// Calls the administrator's address if the kubeconfig has one, because faults do not affect it.
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
    match client.call(method.clone(), path, body).await {
        Err(Problem::NotAtoll(_)) => {
            let number = path.strip_prefix(PATH).unwrap_or_default().trim_matches('/');
            call_at_nodes(&client, &method, number, body).await
        }
        answer => answer.map_err(Into::into),
    }
}

/// Changes the faults of simulated nodes, which their server stores in a ConfigMap.
async fn call_at_nodes(
    client: &Client,
    method: &Method,
    number: &str,
    body: Option<&Value>,
) -> Result<Value, String> {
    let collection = format!("{}{}", client.base, fault_store::COLLECTION);
    let path = format!("{collection}/{}", fault_store::NAME);
    for _ in 0..ATTEMPTS {
        let mut kept = match client.call(Method::GET, &path, None).await {
            Err(Problem::Refused(status)) if status.reason() == "NotFound" => {
                let what = format!("{} is not a simulated cluster and has no simulated nodes", client.origin);
                return Err(Failure::new(what, "choose one with --context").into());
            }
            answer => answer.map_err(String::from)?,
        };
        let mut faults = fault_store::read(&kept);
        let answer = match (method, body) {
            (&Method::GET, _) => {
                let all = faults.iter().map(|(number, fault)| fault_json(*number, fault));
                return Ok(json!({ "faults": all.collect::<Vec<_>>() }));
            }
            (_, Some(body)) => {
                let fault = Fault::from_json(body)?;
                if let Some(unsupported) = fault_store::unsupported(&fault) {
                    return Err(unsupported);
                }
                let next = faults.last().map_or(1, |(last, _)| last + 1);
                faults.push((next, fault.clone()));
                fault_json(next, &fault)
            }
            (_, None) => {
                let before = faults.len();
                faults.retain(|(known, _)| !number.is_empty() && known.to_string() != number);
                if !number.is_empty() && faults.len() == before {
                    return Err(Problem::Refused(Status::not_found("", "faults", number)).into());
                }
                json!({ "removed": before - faults.len() })
            }
        };
        fault_store::write(&mut kept, &faults);
        match client.call(Method::PUT, &path, Some(&kept)).await {
            Ok(_) => return Ok(answer),
            // Another writer was faster: retry.
            Err(Problem::Refused(status)) if status.reason() == "Conflict" => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    Err("the faults keep being changed by other writers; try again".into())
}
