//! `atoll dialect …`: enables and disables other systems' APIs in workspaces.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_meta::object;
use atoll_registry::dialect::{DISABLING, ENABLED, MARKER, SharedDialect};
use http::Method;
use serde_json::{Value, json};

use crate::advice::{Failure, invocation};
use crate::command::{Connection, DialectCommand, DialectOptions};
use crate::output;
use crate::process;
use crate::style::Paint;
use crate::workspace::session::Session;
use atoll_joining::client::Problem;

const POLICIES: &str = "/apis/atoll.dev/v1alpha1/clusterplacementpolicies";
/// Time for the removal of objects that only show others, and the interval between looks.
const SHOWN_TIMEOUT: Duration = Duration::from_secs(20);
const SHOWN_INTERVAL: Duration = Duration::from_millis(100);

pub fn run(command: DialectCommand) -> Result<(), String> {
    process::run_command(async {
        let outcome = match command {
            DialectCommand::Enable(options) => enable(&options).await,
            DialectCommand::List { workspace, connection } => list(workspace.as_deref(), &connection).await,
            DialectCommand::Disable(options) => disable(&options).await,
        };
        outcome.map_err(String::from)
    })
}

/// The session, and the path of the chosen workspace.
async fn open(workspace: Option<&str>, connection: &Connection) -> Result<(Session, String), Failure> {
    let session = Session::open(connection)?;
    let path = session.resolve(workspace.unwrap_or(".")).await?;
    Ok((session, path))
}

fn config_maps() -> String {
    format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps")
}

/// The ConfigMap of dialects in a workspace.
async fn marker(session: &Session, path: &str) -> Result<Option<Value>, Problem> {
    match session.call(Method::GET, path, &format!("{}/{MARKER}", config_maps()), None).await {
        Ok(found) => Ok(Some(found)),
        Err(Problem::Refused(status))
            if status.reason() == "NotFound"
                && status.details().is_some_and(|details| details.kind != "workspaces") =>
        {
            Ok(None)
        }
        Err(problem) => Err(problem),
    }
}

fn speaks(marker: Option<&Value>, dialect: &str) -> bool {
    marker.is_some_and(|marker| marker["data"].get(dialect).is_some())
}

/// The dialect that a command names.
fn dialect(name: &str) -> Result<SharedDialect, Failure> {
    let all = atoll_dialects::all().into_iter().map(|registration| registration.dialect);
    all.into_iter().find(|dialect| dialect.name() == name).ok_or_else(|| {
        Failure::new(
            format!("there is no dialect {name}"),
            format!("list all with: {} dialect list", invocation()),
        )
    })
}

/// The nearest workspace, of this one and its ancestors, that enables a dialect. Ancestors that the user may
/// not read are skipped.
async fn source(session: &Session, path: &str, dialect: &str) -> Result<Option<String>, Failure> {
    let mut at = path;
    loop {
        match marker(session, at).await {
            Ok(found) if speaks(found.as_ref(), dialect) => return Ok(Some(at.to_string())),
            Ok(_) => {}
            Err(problem) if at != path && problem.is("Forbidden") => {}
            Err(problem) => return Err(session.not_found(at, problem).await),
        }
        match at.rsplit_once(':') {
            Some((parent, _)) => at = parent,
            None => return Ok(None),
        }
    }
}

async fn enable(options: &DialectOptions) -> Result<(), Failure> {
    let (session, path) = open(options.workspace.as_deref(), &options.connection).await?;
    let dialect = dialect(&options.dialect)?;
    let name = dialect.name();
    let found = match marker(&session, &path).await {
        Ok(found) => found,
        Err(problem) => return Err(session.not_found(&path, problem).await),
    };
    let is_leaving = found.as_ref().is_some_and(|found| found["data"][name] == DISABLING);
    if speaks(found.as_ref(), name) && !is_leaving {
        output::print(&format!("{path} already speaks {name}.\n"));
        return Ok(());
    }
    let data = json!({ name: ENABLED });
    if found.is_some() {
        change(&session, &path, &json!({ "data": data })).await?;
    } else {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
        create(&session, &path, "/api/v1/namespaces", &namespace).await?;
        let marker = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": MARKER, "namespace": SYSTEM_NAMESPACE }, "data": data,
        });
        create(&session, &path, &config_maps(), &marker).await?;
    }
    for policy in dialect.policies() {
        create(&session, &path, POLICIES, &policy).await?;
    }
    output::print(&format!(
        "{path} now speaks {name}, and so do all workspaces below it: {}\n",
        dialect.texts().enabled
    ));
    Ok(())
}

/// Creates an object unless it exists.
async fn create(session: &Session, path: &str, collection: &str, object: &Value) -> Result<(), Failure> {
    match session.call(Method::POST, path, collection, Some(object)).await {
        Err(problem) if !problem.is("AlreadyExists") => Err(problem.into()),
        _ => Ok(()),
    }
}

async fn change(session: &Session, path: &str, patch: &Value) -> Result<(), Failure> {
    let at = crate::cluster::in_workspace(path, &format!("{}/{MARKER}", config_maps()));
    session.client.patch(&at, "application/merge-patch+json", patch).await?;
    Ok(())
}

async fn list(workspace: Option<&str>, connection: &Connection) -> Result<(), Failure> {
    let (session, path) = open(workspace, connection).await?;
    let mut rows = Vec::new();
    for dialect in atoll_dialects::all().into_iter().map(|registration| registration.dialect) {
        let source = match source(&session, &path, dialect.name()).await? {
            Some(source) if source == path => "yes".to_string(),
            Some(source) => format!("yes, by {source}"),
            None => "no".into(),
        };
        rows.push(vec![dialect.name().to_string(), source, dialect.texts().serves.to_string()]);
    }
    let headers = ["NAME", "ENABLED", "SERVES"].map(str::to_string);
    output::print(&output::table(&headers, &rows, Paint::stdout()));
    Ok(())
}

async fn disable(options: &DialectOptions) -> Result<(), Failure> {
    let (session, path) = open(options.workspace.as_deref(), &options.connection).await?;
    let dialect = dialect(&options.dialect)?;
    let name = dialect.name();
    let source = source(&session, &path, name).await?;
    match source.as_deref() {
        Some(source) if source == path => {}
        Some(source) => {
            return Err(Failure::new(
                format!("{path} speaks {name} because {source} does"),
                format!("disable it there: {} dialect disable {name} --workspace {source}", invocation()),
            ));
        }
        None => {
            output::print(&format!("{path} does not speak {name}.\n"));
            return Ok(());
        }
    }
    let (mut open, mut showing) = (vec![path.clone()], Vec::new());
    while let Some(at) = open.pop() {
        let DialectObjects { own: found, shown } = objects(&session, &at, &dialect).await?;
        if shown > 0 {
            showing.push(at.clone());
        }
        if !found.is_empty() {
            let names: Vec<String> = found.iter().map(DialectObject::to_string).collect();
            return Err(Failure::new(
                format!("{at} has {} that speak {name}: {}", dialect.texts().objects, names.join(", ")),
                format!("delete them first, in that workspace: {}", deletion(&found)),
            ));
        }
        open.extend(session.child_names(&at).await?.into_iter().map(|child| format!("{at}:{child}")));
    }
    if !showing.is_empty() {
        change(&session, &path, &json!({ "data": { name: DISABLING } })).await?;
        wait_until_unshown(&session, showing, &dialect).await?;
    }
    change(&session, &path, &json!({ "data": { name: null } })).await?;
    output::print(&format!(
        "{path} no longer speaks {name}. {}\n",
        dialect.texts().disabled.replace("{atoll}", invocation())
    ));
    Ok(())
}

/// Waits until the controller of a dialect has removed the objects that only show others.
async fn wait_until_unshown(
    session: &Session,
    workspaces: Vec<String>,
    dialect: &SharedDialect,
) -> Result<(), Failure> {
    let name = dialect.name();
    let begun = Instant::now();
    for at in workspaces {
        while objects(session, &at, dialect).await?.shown > 0 {
            if begun.elapsed() > SHOWN_TIMEOUT {
                return Err(Failure::new(
                    format!("{at} still shows {} of {name}", dialect.texts().objects),
                    format!(
                        "check that the controllers of {name} run (atoll start --controllers), then repeat: {} dialect disable {name}",
                        invocation()
                    ),
                ));
            }
            tokio::time::sleep(SHOWN_INTERVAL).await;
        }
    }
    Ok(())
}

/// The objects of a dialect's kinds in a workspace.
struct DialectObjects {
    /// Those that must be deleted before the dialect is disabled.
    own: Vec<DialectObject>,
    /// Number of those that only show others.
    shown: usize,
}

/// An object of a dialect's kind, as kubectl names it.
struct DialectObject {
    /// Empty for an object of the whole workspace.
    namespace: String,
    /// Kind, group and name: `widget.example.com/a`.
    name: String,
}

impl fmt::Display for DialectObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => formatter.write_str(&self.name),
            namespace => write!(formatter, "{} in namespace {namespace}", self.name),
        }
    }
}

/// The commands that delete objects, one for each namespace.
fn deletion(objects: &[DialectObject]) -> String {
    let mut names = BTreeMap::<&str, Vec<&str>>::new();
    for object in objects {
        names.entry(&object.namespace).or_default().push(&object.name);
    }
    let command = |(namespace, names): (&str, Vec<&str>)| match namespace {
        "" => format!("kubectl delete {}", names.join(" ")),
        namespace => format!("kubectl delete -n {namespace} {}", names.join(" ")),
    };
    names.into_iter().map(command).collect::<Vec<_>>().join(" && ")
}

/// The objects of a dialect's kinds in a workspace, each in the spelling in which it is stored.
async fn objects(session: &Session, path: &str, dialect: &SharedDialect) -> Result<DialectObjects, Failure> {
    let (mut found, views) = (DialectObjects { own: Vec::new(), shown: 0 }, dialect.views());
    for definition in dialect.definitions() {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let (group, plural, kind) =
            (text(&spec["group"]), text(&spec["names"]["plural"]), text(&spec["names"]["kind"]));
        if views.iter().any(|view| (view.group, view.resource) == (group.as_str(), plural.as_str())) {
            continue;
        }
        let version = text(&spec["versions"][0]["name"]);
        let list =
            match session.call(Method::GET, path, &format!("/apis/{group}/{version}/{plural}"), None).await {
                Ok(list) => list,
                Err(problem) if problem.is("NotFound") => continue,
                Err(problem) => return Err(problem.into()),
            };
        let items = || list["items"].as_array().into_iter().flatten();
        found.shown += items().filter(|item| dialect.is_reflection(item)).count();
        let own = items().filter(|item| !dialect.is_reflection(item));
        found.own.extend(own.map(|item| DialectObject {
            namespace: object::namespace(item).to_string(),
            name: format!("{}.{group}/{}", kind.to_lowercase(), object::name(item)),
        }));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_deleted_by_namespace() {
        let object = |namespace: &str, name: &str| DialectObject {
            namespace: namespace.into(),
            name: format!("widget.example.com/{name}"),
        };
        for (objects, expected) in [
            (
                vec![object("", "a"), object("", "b")],
                "kubectl delete widget.example.com/a widget.example.com/b",
            ),
            (
                vec![object("web", "a"), object("db", "a"), object("web", "b")],
                "kubectl delete -n db widget.example.com/a && \
                 kubectl delete -n web widget.example.com/a widget.example.com/b",
            ),
        ] {
            assert_eq!(deletion(&objects), expected);
        }
        assert_eq!(object("web", "a").to_string(), "widget.example.com/a in namespace web");
    }
}
