//! `atoll syncer`: one cluster, from two kubeconfigs and a name.

use std::path::Path;
use std::sync::Arc;

use atoll_client::Client;
use atoll_client::https::{Endpoint, Https};
use atoll_syncer::{Random, Settings};

use crate::command::{Connection, SyncerOptions};
use crate::kubeconfig::Kubeconfig;
use crate::process::{self, Stop};

pub fn run(options: SyncerOptions) -> Result<(), String> {
    process::run(&options.log, sync(&options.name, &options.from_kubeconfig, &options.to_kubeconfig))
}

async fn sync(name: &str, from: &Path, to: &Path) -> Result<(), String> {
    let (above, below) = (client(from)?, client(to)?);
    let stop = Stop::listen()?;
    println!("Syncing the cluster {name}.");
    let settings = Settings::new(name, &instance()?, random());
    atoll_syncer::run(settings, above, below, stop.asked()).await;
    Ok(())
}

fn client(path: &Path) -> Result<Client, String> {
    let connection = Connection { kubeconfig: Some(path.to_path_buf()), context: None };
    let context = Kubeconfig::load(&connection)?.context()?;
    let endpoint = Endpoint::of(context).map_err(|problem| format!("{}: {problem}", path.display()))?;
    let transport = Https::new(&endpoint).map_err(|problem| format!("{}: {problem}", path.display()))?;
    Ok(Client::new(Arc::new(transport)))
}

/// Who this one is: two that run at once for the same cluster are told apart.
fn instance() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random numbers: {error}"))?;
    Ok(format!("syncer-{}", &atoll_meta::id::uuid_v4(bytes)[..8]))
}

/// From the machine.
pub fn random() -> Random {
    Arc::new(|| {
        let mut bytes = [0; 8];
        // Without randomness pauses are merely all alike.
        let _ = getrandom::fill(&mut bytes);
        u64::from_ne_bytes(bytes)
    })
}
