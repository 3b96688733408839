//! Runs controllers against any API server: `cargo run -p atoll-controllers --example run -- --kubeconfig FILE
//! [--controllers deployment,replicaset] [--node-monitor-period SECONDS] …`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use atoll_client::Client;
use atoll_client::https::{Endpoint, Https};
use atoll_controllers::catalog::Choice;
use atoll_controllers::context::{Acts, Context};
use atoll_controllers::settings::Settings;
use atoll_informer::{SystemClock, World};
use base64::Engine;
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_env_filter(std::env::var("RUST_LOG").unwrap_or("info".into())).init();
    let (mut kubeconfig, mut choice, mut settings) = (String::new(), Choice::default(), Settings::default());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or("each option has a value")?;
        match argument.as_str() {
            "--kubeconfig" => kubeconfig = value,
            "--controllers" => choice = value.parse()?,
            "--node-monitor-period" => settings.node_monitor_period = seconds(&value)?,
            "--node-monitor-grace-period" => settings.node_monitor_grace_period = seconds(&value)?,
            "--horizontal-pod-autoscaler-sync-period" => {
                settings.horizontal_pod_autoscaler_sync_period = seconds(&value)?;
            }
            other => return Err(format!("no option {other}").into()),
        }
    }
    let client = Client::new(Arc::new(Https::new(&endpoint(&kubeconfig)?)?));
    let context =
        Context::new(World::one(client), Arc::new(SystemClock), Acts::Everywhere).with_settings(settings);
    atoll_controllers::run_chosen(context, &choice).await;
    Ok(())
}

fn seconds(text: &str) -> Result<Duration, Box<dyn Error>> {
    Ok(Duration::from_secs(text.parse()?))
}

/// The first cluster and user of a kubeconfig.
fn endpoint(path: &str) -> Result<Endpoint, Box<dyn Error>> {
    let config: Value = serde_saphyr::from_str(&std::fs::read_to_string(path)?)?;
    let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
    let pem = |of: &Value, field: &str| -> Result<Option<Vec<u8>>, Box<dyn Error>> {
        if let Some(data) = of[format!("{field}-data").as_str()].as_str() {
            return Ok(Some(base64::engine::general_purpose::STANDARD.decode(data)?));
        }
        Ok(of[field].as_str().map(std::fs::read).transpose()?)
    };
    Ok(Endpoint {
        server: cluster["server"].as_str().ok_or("no server")?.to_string(),
        authority_pem: pem(cluster, "certificate-authority")?.ok_or("no certificate-authority")?,
        certificate_pem: pem(user, "client-certificate")?,
        key_pem: pem(user, "client-key")?,
        token: user["token"].as_str().map(String::from),
    })
}
