//! Runs controllers against any API server:
//! `cargo run -p atoll-controllers --example run -- --kubeconfig FILE [--controllers deployment,replicaset]
//! …`.
//! Certificates and keys are configured with the flags of kube-controller-manager: `--root-ca-file`,
//! `--cluster-signing-cert-file`, `--cluster-signing-key-file` and `--service-account-private-key-file` (a
//! P-256 key).

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use atoll_authn::authority::Authority;
use atoll_authn::service_account::{KeyRing, Tokens};
use atoll_client::Client;
use atoll_client::https::{Endpoint, Https};
use atoll_client::kubeconfig::{KubeconfigFiles, Selection};
use atoll_controllers::catalog::ControllerSelection;
use atoll_controllers::context::{Context, Signers, WorkloadScope};
use atoll_controllers::settings::Settings;
use atoll_informer::{ApiScope, SystemClock};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_env_filter(std::env::var("RUST_LOG").unwrap_or("info".into())).init();
    let (mut kubeconfig, mut selection, mut settings) =
        (String::new(), ControllerSelection::default(), Settings::default());
    let (mut certificate, mut key, mut signers) = (String::new(), String::new(), Signers::default());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or("every option needs a value")?;
        match argument.as_str() {
            "--kubeconfig" => kubeconfig = value,
            "--controllers" => selection = value.parse()?,
            "--node-monitor-period" => settings.node_monitor_period = seconds(&value)?,
            "--node-monitor-grace-period" => settings.node_monitor_grace_period = seconds(&value)?,
            "--horizontal-pod-autoscaler-sync-period" => {
                settings.horizontal_pod_autoscaler_sync_period = seconds(&value)?;
            }
            "--root-ca-file" => signers.root_ca = Some(std::fs::read_to_string(value)?.into()),
            "--cluster-signing-cert-file" => certificate = std::fs::read_to_string(value)?,
            "--cluster-signing-key-file" => key = std::fs::read_to_string(value)?,
            "--service-account-private-key-file" => {
                let keys = KeyRing::from_pem(&std::fs::read_to_string(value)?)?;
                signers.tokens = Some(Arc::new(Tokens::new(atoll_authn::ISSUER, keys)));
            }
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    if !certificate.is_empty() {
        let authority = Authority::from_pem(certificate, &key, time::OffsetDateTime::now_utc())?;
        signers.authority = Some(Arc::new(authority));
    }
    let client = Client::new(Arc::new(Https::new(&endpoint(&kubeconfig)?)?));
    let context = Context::new(ApiScope::single(client), Arc::new(SystemClock), WorkloadScope::All)
        .with_settings(settings)
        .with_signers(signers);
    atoll_controllers::run_selected(context, &selection).await;
    Ok(())
}

fn seconds(text: &str) -> Result<Duration, Box<dyn Error>> {
    Ok(Duration::from_secs(text.parse()?))
}

/// Returns the server of the current context.
fn endpoint(path: &str) -> Result<Endpoint, Box<dyn Error>> {
    let files = KubeconfigFiles::load(&Selection::Explicit(path.into()))?;
    Ok(Endpoint::of(files.context(files.merged().current())?)?)
}
