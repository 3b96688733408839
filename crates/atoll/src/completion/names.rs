//! Candidates from the kubeconfig, the server or the data directory. If these are missing or slow there are
//! no candidates, because completion must not block or print errors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Candidate;
use super::line::{Expected, Source};
use crate::cluster::cluster_names;
use crate::command::Connection;
use crate::kubeconfig::Kubeconfig;
use crate::workspace::session::{ROOT, Session};

/// Environment variable with the timeout of the server in seconds.
const TIMEOUT: &str = "ATOLL_COMPLETION_TIMEOUT";

fn timeout() -> Duration {
    let seconds = std::env::var(TIMEOUT).ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
}

pub fn candidates(expected: &Expected) -> Vec<Candidate> {
    let connection = Connection {
        kubeconfig: expected.given("kubeconfig").map(PathBuf::from),
        context: expected.given("context").map(str::to_string),
    };
    let names = match expected.source {
        Source::Contexts => contexts(&connection),
        Source::ContextsOf(option) => {
            let kubeconfig = expected.given(option).map(PathBuf::from);
            contexts(&Connection { kubeconfig, context: None })
        }
        Source::Clusters => query(&connection, async |session| clusters(session, "").await),
        Source::ClusterLists => {
            let before = expected.partial.rfind(',').map_or("", |comma| &expected.partial[..=comma]);
            query(&connection, async |session| clusters(session, before).await)
        }
        Source::Keys => keys(expected.given("data_dir")),
        Source::Children => query(&connection, async |session| below(session, &session.current, "").await),
        Source::Workspaces => {
            query(&connection, async |session| workspaces(session, &expected.partial).await)
        }
        Source::Files | Source::Directories | Source::Words(_) => None,
    };
    names.unwrap_or_default()
}

fn contexts(connection: &Connection) -> Option<Vec<Candidate>> {
    // The context being typed does not exist yet.
    let connection = Connection { context: None, ..connection.clone() };
    let config = Kubeconfig::load(&connection).ok()?;
    let names = config.contexts().into_iter().map(|name| candidate(name.to_string(), ""));
    Some(names.collect())
}

fn keys(directory: Option<&str>) -> Option<Vec<Candidate>> {
    let chosen =
        directory.map(PathBuf::from).or_else(|| std::env::var_os("ATOLL_DATA_DIR").map(PathBuf::from));
    let directory = chosen.unwrap_or_else(|| "atoll-data".into());
    if !Path::new(&directory).join("service-account.key").exists() {
        return None;
    }
    // The first key signs and cannot be retired.
    let keys = atoll_authn::service_account::list(&directory).ok()?;
    Some(keys.into_iter().skip(1).map(|id| candidate(id, "verifies")).collect())
}

fn query(
    connection: &Connection,
    question: impl AsyncFnOnce(&Session) -> Option<Vec<Candidate>>,
) -> Option<Vec<Candidate>> {
    let session = Session::open(connection).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async { tokio::time::timeout(timeout(), question(&session)).await.ok()? })
}

/// Absolute paths if the typed path begins with the root, otherwise paths relative to the current workspace.
async fn workspaces(session: &Session, partial: &str) -> Option<Vec<Candidate>> {
    if partial == ROOT || partial.starts_with("root:") {
        let parent = partial.rsplit_once(':').map_or(ROOT, |(parent, _)| parent);
        let mut found = below(session, parent, &format!("{parent}:")).await?;
        if partial == ROOT {
            found.insert(0, candidate(ROOT.to_string(), "the root workspace"));
        }
        return Some(found);
    }
    let prefix = partial.rsplit_once(':').map_or(String::new(), |(parent, _)| format!("{parent}:"));
    let parent = match prefix.strip_suffix(':') {
        Some(parent) => format!("{}:{parent}", session.current),
        None => session.current.clone(),
    };
    let mut found = below(session, &parent, &prefix).await?;
    found.push(candidate(ROOT.to_string(), "the root workspace"));
    if session.current != ROOT {
        found.push(candidate("..".to_string(), "the parent workspace"));
    }
    Some(found)
}

/// The clusters registered in the current workspace, each with the prefix `before`.
async fn clusters(session: &Session, before: &str) -> Option<Vec<Candidate>> {
    let names = cluster_names(session, &session.current).await.ok()?;
    let help = format!("in {}", session.current);
    Some(names.into_iter().map(|name| candidate(format!("{before}{name}"), &help)).collect())
}

async fn below(session: &Session, parent: &str, prefix: &str) -> Option<Vec<Candidate>> {
    let names = session.child_names(parent).await.ok()?;
    let help = format!("in {parent}");
    Some(names.into_iter().map(|name| candidate(format!("{prefix}{name}"), &help)).collect())
}

fn candidate(value: String, help: &str) -> Candidate {
    Candidate { value, help: help.to_string() }
}
