//! `atoll workspace …`: a tree of workspaces, walked like directories.

use std::time::Duration;

use atoll_meta::object;
use http::Method;
use serde_json::{Value, json};

use crate::client::{Client, Problem};
use crate::command::{Connection, WorkspaceCommand};
use crate::kubeconfig::Kubeconfig;
use crate::process;

const ROOT: &str = "root";
const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";

pub fn run(command: WorkspaceCommand) -> Result<(), String> {
    process::ask(async {
        match command {
            WorkspaceCommand::Create { name, r#use, connection } => create(&name, r#use, &connection).await,
            WorkspaceCommand::Use { path, connection } => enter(&path, &connection).await,
            WorkspaceCommand::Tree { connection } => tree(&connection).await,
            WorkspaceCommand::Delete { name, no_wait, connection } => {
                delete(&name, no_wait, &connection).await
            }
        }
    })
}

/// The control plane, and the workspace that the context is in.
struct Session {
    config: Kubeconfig,
    client: Client,
    current: String,
}

impl Session {
    fn open(connection: &Connection) -> Result<Self, String> {
        let config = Kubeconfig::load(connection)?;
        let client = Client::new(&config.context()?)?;
        let current = match client.base.strip_prefix("/clusters/") {
            Some(path) => path.to_string(),
            None if client.base.is_empty() => ROOT.to_string(),
            None => return Err(format!("{}{} is not an Atoll workspace", client.origin, client.base)),
        };
        Ok(Session { config, client, current })
    }

    async fn call(
        &self,
        method: Method,
        workspace: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Problem> {
        self.client.call(method, &format!("/clusters/{workspace}{path}"), body).await
    }

    async fn enter(&mut self, path: &str) -> Result<(), String> {
        // Asking for something that every workspace has tells whether it exists.
        self.call(Method::GET, path, "/api/v1", None).await?;
        let server = match path {
            ROOT => self.client.origin.clone(),
            path => format!("{}/clusters/{path}", self.client.origin),
        };
        self.config.set_server(&server)?;
        println!("The current workspace is now {path}.");
        Ok(())
    }
}

async fn create(name: &str, enter: bool, connection: &Connection) -> Result<(), String> {
    let mut session = Session::open(connection)?;
    let workspace =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": name } });
    session.call(Method::POST, &session.current, WORKSPACES, Some(&workspace)).await?;
    let path = format!("{}:{name}", session.current);
    if enter {
        return session.enter(&path).await;
    }
    println!("Workspace {path} is ready. Enter it with: atoll workspace use {name}");
    Ok(())
}

async fn enter(path: &str, connection: &Connection) -> Result<(), String> {
    let mut session = Session::open(connection)?;
    let target = match path {
        ".." => match session.current.rsplit_once(':') {
            Some((parent, _)) => parent.to_string(),
            None => return Err("root has no parent".into()),
        },
        "." => session.current.clone(),
        path if path == ROOT || path.starts_with("root:") => path.to_string(),
        child => format!("{}:{child}", session.current),
    };
    session.enter(&target).await
}

async fn tree(connection: &Connection) -> Result<(), String> {
    let session = Session::open(connection)?;
    println!("{}", session.current);
    let mut text = String::new();
    branches(&session, &session.current, "", &mut text).await?;
    print!("{text}");
    Ok(())
}

/// Depth is the number of names in a path, which people type: recursion is safe.
async fn branches(session: &Session, path: &str, indent: &str, text: &mut String) -> Result<(), String> {
    let list = session.call(Method::GET, path, WORKSPACES, None).await?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    for (position, workspace) in items.iter().enumerate() {
        let last = position + 1 == items.len();
        let name = object::name(workspace);
        let phase = workspace["status"]["phase"].as_str().unwrap_or_default();
        let remark = if phase == "Ready" { String::new() } else { format!(" ({})", phase.to_lowercase()) };
        text.push_str(&format!("{indent}{}{name}{remark}\n", if last { "└── " } else { "├── " }));
        let deeper = format!("{indent}{}", if last { "    " } else { "│   " });
        Box::pin(branches(session, &format!("{path}:{name}"), &deeper, text)).await?;
    }
    Ok(())
}

async fn delete(name: &str, no_wait: bool, connection: &Connection) -> Result<(), String> {
    let session = Session::open(connection)?;
    let path = format!("{WORKSPACES}/{name}");
    session.call(Method::DELETE, &session.current, &path, None).await?;
    if no_wait {
        println!("Workspace {}:{name} is being deleted.", session.current);
        return Ok(());
    }
    let mut shown = String::new();
    loop {
        match session.call(Method::GET, &session.current, &path, None).await {
            Err(Problem::Refused(status)) if status.reason() == "NotFound" => break,
            Err(problem) => return Err(problem.into()),
            Ok(workspace) => {
                let remaining = workspace["status"]["message"].as_str().unwrap_or_default();
                if remaining != shown {
                    eprintln!("{remaining}");
                    shown = remaining.to_string();
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("Workspace {}:{name} is gone.", session.current);
    Ok(())
}
