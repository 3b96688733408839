//! `atoll workspace …`: commands for the tree of workspaces.

mod contents;
pub mod session;
mod tree;

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use self::contents::WorkspaceContents;
use self::session::{ROOT, Session, WORKSPACES, encoded};
use crate::advice::{Failure, invocation};
use crate::cluster::confirmation;
use crate::command::{Connection, Grain, WorkspaceCommand};
use crate::output::errln;
use crate::output::{self, OutputFormat, OutputOptions};
use crate::process;
use crate::style::Paint;
use atoll_joining::client::Problem;

pub fn run(command: WorkspaceCommand) -> Result<(), String> {
    process::run_command(async {
        let outcome: Result<(), Failure> = async {
            match command {
                WorkspaceCommand::Create { name, r#use, grain, shown, connection } => {
                    create(&name, grain, r#use, shown, &connection).await
                }
                WorkspaceCommand::Use { path, connection } => enter(&path, &connection).await,
                WorkspaceCommand::Current { connection } => {
                    output::print(&format!("{}\n", Session::open(&connection)?.current));
                    Ok(())
                }
                WorkspaceCommand::List { shown, connection } => list(shown, &connection).await,
                WorkspaceCommand::Tree { shown, connection } => {
                    tree::show(&Session::open(&connection)?, shown).await
                }
                WorkspaceCommand::Delete { name, no_wait, yes, connection } => {
                    delete(&name, no_wait, yes, &connection).await
                }
            }
        }
        .await;
        outcome.map_err(String::from)
    })
}

async fn create(
    name: &str,
    grain: Option<Grain>,
    enter: bool,
    shown: OutputOptions,
    connection: &Connection,
) -> Result<(), Failure> {
    let mut session = Session::open(connection)?;
    let mut workspace =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": name } });
    if let Some(grain) = grain {
        workspace["spec"] = json!({ "grain": grain.name() });
    }
    let created = match session.call(Method::POST, &session.current, WORKSPACES, Some(&workspace)).await {
        Ok(created) => created,
        Err(problem) => return Err(not_created(&session, name, problem).await),
    };
    let path = format!("{}:{name}", session.current);
    if enter {
        point_to(&mut session, &path).await?;
    }
    output::print(&match (shown.output, enter) {
        (Some(OutputFormat::Json), _) => output::json(&created),
        (Some(OutputFormat::Yaml), _) => output::yaml(&created)?,
        (Some(OutputFormat::Name), _) => format!("workspace.atoll.dev/{name}\n"),
        (None | Some(OutputFormat::Wide), true) => format!("The current workspace is now {path}.\n"),
        (None | Some(OutputFormat::Wide), false) => {
            format!("Workspace {path} is ready. Enter it with: {} workspace use {name}\n", invocation())
        }
    });
    Ok(())
}

async fn not_created(session: &Session, name: &str, problem: Problem) -> Failure {
    let Problem::Refused(status) = &problem else { return problem.into() };
    let mut failure = Failure::refused(status);
    failure.hint = match status.reason() {
        "AlreadyExists" => Some(format!("enter it with: {} workspace use {name}", invocation())),
        "Invalid" => {
            valid_name(name).map(|name| format!("use a valid name: {} workspace create {name}", invocation()))
        }
        "NotFound" => return session.not_found(&session.current, problem).await,
        _ => failure.hint,
    };
    failure
}

/// Derives a valid name from an invalid one.
fn valid_name(name: &str) -> Option<String> {
    let plain = |character: char| match character.to_ascii_lowercase() {
        character @ ('a'..='z' | '0'..='9') => character,
        _ => '-',
    };
    let name: String = name.chars().map(plain).take(63).collect();
    let name = name.trim_matches('-');
    (!name.is_empty()).then(|| name.to_string())
}

async fn enter(path: &str, connection: &Connection) -> Result<(), Failure> {
    let mut session = Session::open(connection)?;
    let target = session.resolve(path).await?;
    point_to(&mut session, &target).await?;
    output::print(&format!("The current workspace is now {target}.\n"));
    Ok(())
}

async fn point_to(session: &mut Session, path: &str) -> Result<(), Failure> {
    // Every workspace serves this path, so it shows whether the workspace exists.
    if let Err(problem) = session.call(Method::GET, path, "/api/v1", None).await {
        return Err(session.not_found(path, problem).await);
    }
    let server = match path {
        ROOT => session.client.origin.clone(),
        path => format!("{}/clusters/{path}", session.client.origin),
    };
    let previous = session.current.clone();
    if previous == path {
        return Ok(());
    }
    session.config.set_server(&server, &previous)
}

async fn list(shown: OutputOptions, connection: &Connection) -> Result<(), Failure> {
    let session = Session::open(connection)?;
    let path = format!("/clusters/{}{WORKSPACES}", encoded(&session.current));
    let accept = if matches!(shown.output, None | Some(OutputFormat::Wide)) {
        output::TABLE
    } else {
        "application/json"
    };
    let answer = match session.client.call_as(Method::GET, &path, accept, None).await {
        Ok(answer) => answer,
        Err(problem) => return Err(session.not_found(&session.current, problem).await),
    };
    let items = || answer["items"].as_array().into_iter().flatten();
    let text = match shown.output {
        Some(OutputFormat::Json) => output::json(&answer),
        Some(OutputFormat::Yaml) => output::yaml(&answer)?,
        Some(OutputFormat::Name) => {
            items().map(|item| format!("workspace.atoll.dev/{}\n", atoll_meta::object::name(item))).collect()
        }
        None | Some(OutputFormat::Wide) => {
            table(&answer, &session.current, shown.output.is_some(), Paint::stdout())
        }
    };
    if text.is_empty() || answer["rows"].as_array().is_some_and(Vec::is_empty) {
        errln!("There are no workspaces in {}.", session.current);
        return Ok(());
    }
    output::print(&text);
    Ok(())
}

/// The server's table; a wide one also has the paths, for `use`.
fn table(answer: &Value, current: &str, wide: bool, paint: Paint) -> String {
    let (mut headers, mut rows) = output::columns(answer, wide);
    if wide {
        headers.push("PATH".to_string());
        for row in &mut rows {
            row.push(format!("{current}:{}", row.first().map_or("", String::as_str)));
        }
    }
    output::table(&headers, &rows, paint)
}

async fn delete(name: &str, no_wait: bool, yes: bool, connection: &Connection) -> Result<(), Failure> {
    let session = Session::open(connection)?;
    let path = format!("{WORKSPACES}/{}", encoded(name));
    let full_path = format!("{}:{name}", session.current);
    if let Err(problem) = session.call(Method::GET, &session.current, &path, None).await {
        return Err(session.not_found(&full_path, problem).await);
    }
    let contents = WorkspaceContents::count(&session, &full_path).await?;
    if contents.needs_confirmation() {
        confirmation::confirm(&contents.announcement(&full_path), &format!("Delete {full_path}?"), yes)?;
    }
    if let Err(problem) = session.call(Method::DELETE, &session.current, &path, None).await {
        return Err(session.not_found(&format!("{}:{name}", session.current), problem).await);
    }
    if no_wait {
        output::print(&format!("Workspace {}:{name} is being deleted.\n", session.current));
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
                    errln!("{remaining}");
                    shown = remaining.to_string();
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    output::print(&format!("Workspace {}:{name} was deleted.\n", session.current));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_valid() {
        for (name, expected) in [
            ("Not_A_Name", Some("not-a-name")),
            ("-web-", Some("web")),
            ("team 1", Some("team-1")),
            ("___", None),
            ("", None),
        ] {
            assert_eq!(valid_name(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn wide_tables_have_paths() {
        let answer = json!({
            "columnDefinitions": [
                { "name": "Name", "priority": 0 }, { "name": "Id", "priority": 1 }, { "name": "Age", "priority": 0 },
            ],
            "rows": [{ "cells": ["web", "x1", "3s"] }],
        });
        assert_eq!(table(&answer, "root", false, Paint::PLAIN), "NAME   AGE\nweb    3s\n");
        assert_eq!(
            table(&answer, "root", true, Paint::PLAIN),
            "NAME   ID   AGE   PATH\nweb    x1   3s    root:web\n"
        );
    }
}
