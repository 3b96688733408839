//! `atoll explain`: why an object runs where it does.

mod tables;

use atoll_client::path;
use atoll_fleet::explanation::Explanation;
use atoll_informer::{Clock, SystemClock};

use crate::advice::Failure;
use crate::cluster::{Api, in_workspace};
use crate::command::ExplainOptions;
use crate::output::{self, OutputFormat};
use crate::place::{self, DEFAULT_NAMESPACE};
use crate::process;
use crate::style::Paint;
use crate::workspace::session::Session;

pub fn run(options: ExplainOptions) -> Result<(), String> {
    process::run_command(async { explain(&options).await.map_err(String::from) })
}

async fn explain(options: &ExplainOptions) -> Result<(), Failure> {
    let session = Session::open(&options.connection)?;
    let context = session.config.context()?;
    let api = Api::above(&context, &in_workspace(&session.current, ""))?;
    let resources = place::discover(&api).await?;
    let (resource, name) = place::parse_object_arg(&resources, &options.object)?;
    let namespace =
        options.namespace.as_deref().or(context.namespace.as_deref()).unwrap_or(DEFAULT_NAMESPACE);
    let path = path::object(&resource.collection(namespace), name);
    let placement = match api.get(&format!("{path}/placement?explain=true")).await {
        Ok(placement) => placement,
        Err(problem) => return Err(place::placement_failure(&api, resource, &path, problem).await),
    };
    let explanation: Explanation =
        serde_json::from_value(placement["status"]["explanation"].clone()).unwrap_or_default();
    match options.shown.output {
        Some(OutputFormat::Json) => output::print(&output::json(&placement)),
        Some(OutputFormat::Yaml) => output::print(&output::yaml(&placement)?),
        Some(OutputFormat::Name) => {
            let chosen = explanation.clusters.iter().filter(|cluster| cluster.chosen);
            chosen.for_each(|cluster| output::outln!("{}", cluster.name));
        }
        _ => {
            let scope = if resource.namespaced { format!("{namespace}/{name}") } else { name.to_string() };
            let title = format!("{} {scope}", resource.kind);
            let now = SystemClock.seconds();
            output::print(&tables::render(&title, &placement, &explanation, now, Paint::stdout()));
        }
    }
    Ok(())
}
