//! `/version`: the Kubernetes version of the API.

// upstream: staging/src/k8s.io/apiserver/pkg/server/routes/version.go

use atoll_meta::Status;
use http::{HeaderMap, Response, StatusCode};
use serde_json::json;

use crate::body::Body;
use crate::negotiate::Output;
use crate::respond;

pub fn handle(headers: &HeaderMap) -> Result<Response<Body>, Status> {
    Output::check_json(headers)?;
    let kubernetes = atoll_schema::kubernetes_version();
    let mut numbers = kubernetes.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let previous = minor.parse::<u32>().map_or_else(|_| minor.to_string(), |minor| (minor - 1).to_string());
    let platform = format!("{}/{}", std::env::consts::OS, architecture());
    let version = json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": previous,
        "gitVersion": format!("{kubernetes}+atoll-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": platform,
    });
    Ok(respond::value(StatusCode::OK, &version, Output::INDENTED))
}

/// Returns the architecture by its Go name.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
