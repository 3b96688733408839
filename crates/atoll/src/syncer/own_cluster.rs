//! The cluster in which this agent runs, with the account of its Pod.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use atoll_client::Client;
use atoll_client::https::{Endpoint, Https};

/// Interval of checks whether the kubelet has written a new token.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

pub struct OwnCluster {
    pub transport: Arc<Https>,
    /// Directory with the token and the authority.
    directory: PathBuf,
}

impl OwnCluster {
    /// Reads what Kubernetes gives to every Pod. `directory` is that of the ServiceAccount.
    pub fn open(directory: &Path) -> Result<OwnCluster, String> {
        let variable = |name: &str| {
            std::env::var(name).map_err(|_| format!("{name} is not set; --in-cluster works in a Pod only"))
        };
        let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let file = |name: &str| {
            let path = directory.join(name);
            std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let endpoint = Endpoint {
            server: format!("https://{host}:{port}"),
            authority_pem: file("ca.crt")?,
            token: Some(token(directory)?),
            ..Endpoint::default()
        };
        let transport = Arc::new(Https::new(&endpoint)?);
        Ok(OwnCluster { transport, directory: directory.to_path_buf() })
    }

    pub fn client(&self) -> Client {
        Client::new(self.transport.clone())
    }

    /// Uses each token that the kubelet writes, for as long as it is polled.
    pub fn keep_token(&self) -> impl Future<Output = ()> + Send + use<> {
        let (transport, directory) = (self.transport.clone(), self.directory.clone());
        async move {
            loop {
                tokio::time::sleep(CHECK_INTERVAL).await;
                let used = token(&directory).and_then(|token| transport.use_token(&token));
                if let Err(problem) = used {
                    tracing::warn!("cannot use the token of the Pod: {problem}");
                }
            }
        }
    }
}

fn token(directory: &Path) -> Result<String, String> {
    let path = directory.join("token");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.trim().to_string())
}
