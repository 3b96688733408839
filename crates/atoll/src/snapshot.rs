//! `atoll snapshot save|restore`: saves and restores the data of a running server.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use atoll_meta::json;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;

use crate::advice::{invocation, pluralize};
use crate::cluster::confirmation;
use crate::command::{Connection, SnapshotCommand};
use crate::kubeconfig::Kubeconfig;
use crate::output::{errln, outln};
use crate::{orphans, process};
use atoll_joining::client::Client;

const PATH: &str = "/atoll/snapshot";
const PREVIEW: &str = "/atoll/snapshot/preview";
/// Time for counting orphans after a restore.
const ORPHANS_TIMEOUT: Duration = Duration::from_secs(30);

pub fn run(command: SnapshotCommand) -> Result<(), String> {
    process::run_command(async {
        match command {
            SnapshotCommand::Save { file, connection } => save(&file, &connection).await,
            SnapshotCommand::Restore { file, yes, connection } => restore(&file, yes, &connection).await,
        }
    })
}

fn client(connection: &Connection) -> Result<Client, String> {
    Client::new(&Kubeconfig::load(connection)?.context()?)
}

async fn save(path: &Path, connection: &Connection) -> Result<(), String> {
    use std::os::unix::fs::OpenOptionsExt;
    let client = client(connection)?;
    let response = client.send(Method::GET, PATH, "application/json", Bytes::new()).await?;
    let status = response.status();
    if !status.is_success() {
        let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        let answer = json::parse(&bytes).map(|parsed| parsed.value).unwrap_or_default();
        return Err(client.refusal(PATH, status, &answer).into());
    }
    // The file contains Secrets: create it private, and rename it when it is complete.
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let draft = path.with_extension("draft");
    let mut options = std::fs::OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o600).open(&draft).map_err(failed)?;
    let mut body = response.into_body();
    let (mut size, mut end) = (0, Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the connection broke: {error}"))?;
        let Ok(data) = frame.into_data() else { continue };
        file.write_all(&data).map_err(failed)?;
        size += data.len();
        end.extend_from_slice(&data[data.len().saturating_sub(64)..]);
        end.drain(..end.len().saturating_sub(64));
    }
    let last = end.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let count = json::parse(last).ok().and_then(|parsed| parsed.value["end"].as_u64());
    let count = count.ok_or("the snapshot is incomplete: the server closed the connection; try again")?;
    file.sync_all().map_err(failed)?;
    std::fs::rename(&draft, path).map_err(failed)?;
    outln!(
        "Saved {count} objects ({size} bytes) to {}. Keep encryption.yaml with it: its Secrets cannot be decrypted without that file.",
        path.display()
    );
    Ok(())
}

async fn restore(path: &Path, yes: bool, connection: &Connection) -> Result<(), String> {
    let client = client(connection)?;
    let content = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let content = Bytes::from(content);
    let lost = post(&client, PREVIEW, content.clone()).await?;
    confirmation::confirm(&announcement(&path.display().to_string(), &lost), "Restore it?", yes)?;
    let answer = post(&client, PATH, content).await?;
    let number = |name: &str| answer[name].as_u64().unwrap_or(0);
    outln!(
        "Restored {} objects, {} of them changed. Revisions continue from {}.",
        number("objects"),
        number("changed"),
        answer["revision"].as_str().unwrap_or_default()
    );
    if number("clusters") > 0 {
        outln!(
            "Placements are paused, because what runs on {} may differ from the snapshot, which has {} of them. \
             Objects there that it does not know are orphans; list them with: {atoll} orphans list. Then resume with: \
             {atoll} resume --workspace root",
            pluralize(number("clusters"), "cluster"),
            pluralize(number("reports"), "report"),
            atoll = invocation(),
        );
        match tokio::time::timeout(ORPHANS_TIMEOUT, orphans::count(connection)).await {
            Ok(Ok(found)) => outln!("{found}"),
            Ok(Err(failure)) => errln!("orphans cannot be counted: {failure}"),
            Err(_) => errln!("orphans cannot be counted: a cluster does not respond in time"),
        }
    }
    Ok(())
}

async fn post(client: &Client, path: &str, content: Bytes) -> Result<Value, String> {
    let response = client.send(Method::POST, path, "application/x-ndjson", content).await?;
    let status = response.status();
    let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    let answer = json::parse(&bytes).map(|parsed| parsed.value).unwrap_or_default();
    if !status.is_success() {
        return Err(client.refusal(path, status, &answer).into());
    }
    Ok(answer)
}

/// Describes what the restore deletes and changes, as counted by the server.
fn announcement(file: &str, lost: &Value) -> String {
    let number = |name: &str| lost[name].as_u64().unwrap_or(0);
    let mut text = format!(
        "All data of the server will be replaced by that of {file}. That deletes {}, {} and {}, changes {} and creates {}.",
        pluralize(number("workspaces"), "workspace"),
        pluralize(number("namespaces"), "namespace"),
        pluralize(number("deleted"), "other object"),
        pluralize(number("changed"), "object"),
        pluralize(number("created"), "object"),
    );
    let placed: Vec<String> = lost["placed"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(cluster, count)| format!("{} on {cluster}", count.as_u64().unwrap_or(0)))
        .collect();
    if !placed.is_empty() {
        text.push_str(&format!(
            "\nDeleted objects that were placed on clusters keep running there as orphans: {}. List them \
             afterwards with: {} orphans list",
            placed.join(", "),
            invocation()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn announcements_count_deleted_objects() {
        let lost = json!({ "workspaces": 1, "namespaces": 2, "deleted": 3, "changed": 1, "created": 0 });
        assert_eq!(
            announcement("a.jsonl", &lost),
            "All data of the server will be replaced by that of a.jsonl. That deletes 1 workspace, 2 namespaces and 3 other \
             objects, changes 1 object and creates 0 objects."
        );
        let lost = json!({ "placed": { "east": 2, "west": 1 } });
        assert!(announcement("a.jsonl", &lost).contains("as orphans: 2 on east, 1 on west. List"));
    }
}
