//! The control plane's own certificates: the serving certificate, and the administrator's client certificate
//! in the kubeconfig. Both are renewed before they expire, without a restart; the authority that signs them
//! stays the same.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use atoll_authn::MASTERS;
use atoll_authn::authority::{Authority, Identity, write_private};
use atoll_server::connect::kubelets::Kubelets;
use atoll_server::listen::Tls;
use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;

use crate::kubeconfig::{self, Entry};
use crate::kubelets;

/// Names by which pods address the API server.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// Maximum interval between checks of the clock, which may have been set, or have stopped while the machine
/// slept.
const MAX_INTERVAL: Duration = Duration::from_secs(600);

/// The inputs of the certificates.
pub struct Certificates {
    /// Name of the administrator's context.
    pub name: String,
    pub authority: Arc<Authority>,
    /// Signs client certificates that are valid in one workspace only.
    pub workspaces: Arc<Authority>,
    pub listening: IpAddr,
    pub advertised: SocketAddr,
    /// A second address, for the administrator only.
    pub control: Option<SocketAddr>,
    pub kubeconfig: PathBuf,
    /// A second kubeconfig that contains the administrator.
    pub other: Option<PathBuf>,
    pub lifetime: Duration,
    /// The kubelet client, if this authority has signed its certificate, which is then renewed too.
    pub kubelets: Option<Arc<Kubelets>>,
}

impl Certificates {
    pub fn tls(&self, now: OffsetDateTime) -> Result<Tls, String> {
        let (trusted, workspaces) = (self.authority.certificate_der(), self.workspaces.certificate_der());
        let (certificate, key) = self.serving(now)?;
        Tls::new(trusted, workspaces, certificate, key).map_err(|error| error.to_string())
    }

    fn serving(
        &self,
        now: OffsetDateTime,
    ) -> Result<(CertificateDer<'static>, rustls::pki_types::PrivateKeyDer<'static>), String> {
        let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), self.advertised.ip()];
        if !self.listening.is_unspecified() && self.listening != self.advertised.ip() {
            addresses.push(self.listening);
        }
        let identity = self.authority.serving(&NAMES.map(String::from), &addresses, now, self.lifetime);
        let identity = identity.map_err(|error| error.to_string())?;
        let certificate = identity.certificate_der().map_err(|error| error.to_string())?;
        Ok((certificate, identity.key_der().map_err(|error| error.to_string())?))
    }

    /// Writes the administrator's kubeconfig from scratch. Returns the administrator's identity.
    pub fn write_kubeconfig(&self, now: OffsetDateTime) -> Result<Identity, String> {
        let identity = self.authority.client("atoll-admin", Some(MASTERS), now, self.lifetime);
        let identity = identity.map_err(|error| error.to_string())?;
        let entry = Entry {
            name: &self.name,
            server: self.advertised,
            control: self.control,
            authority_pem: &self.authority.certificate_pem,
            identity: &identity,
        };
        let text = kubeconfig::render(&[entry], &self.name);
        write_private(&self.kubeconfig, &text).map_err(|error| error.to_string())?;
        Ok(identity)
    }

    /// Renews all certificates. The server and workspace in the kubeconfig stay.
    fn renew(&self, tls: &Tls, now: OffsetDateTime) -> Result<(), String> {
        let (certificate, key) = self.serving(now)?;
        tls.replace(certificate, key).map_err(|error| error.to_string())?;
        if let Some(kubelets) = &self.kubelets {
            let identity = kubelets::identity(&self.authority, now, self.lifetime)?;
            kubelets.replace(identity).map_err(|error| error.to_string())?;
        }
        let identity = self.authority.client("atoll-admin", Some(MASTERS), now, self.lifetime);
        let identity = identity.map_err(|error| error.to_string())?;
        if let Some(other) = &self.other
            && let Ok(text) = kubeconfig::with_identity(other, &self.name, &identity)
        {
            write_private(other, &text).map_err(|error| error.to_string())?;
        }
        match kubeconfig::with_identity(&self.kubeconfig, &self.name, &identity) {
            Ok(text) => write_private(&self.kubeconfig, &text).map_err(|error| error.to_string()),
            // The kubeconfig was moved or replaced: write a new one.
            Err(_) => self.write_kubeconfig(now).map(|_| ()),
        }
    }

    /// Whether certificates made at `made` must be renewed.
    fn is_due(&self, made: OffsetDateTime, now: OffsetDateTime) -> bool {
        let age = now - made;
        // A clock that went back far gives no reliable age.
        age >= self.lifetime * 2 / 3 || age < -time::Duration::minutes(5)
    }

    /// Renews the certificates if they are due. Returns when the current ones were made.
    fn renew_if_due(&self, tls: &Tls, made: OffsetDateTime, now: OffsetDateTime) -> OffsetDateTime {
        if !self.is_due(made, now) {
            return made;
        }
        match self.renew(tls, now) {
            Ok(()) => {
                tracing::info!("renewed the certificates of the server and of its administrator");
                now
            }
            Err(error) => {
                tracing::error!(
                    error,
                    "cannot renew the certificates of the server and its administrator; will retry"
                );
                made
            }
        }
    }

    /// Renews the certificates for as long as the server runs.
    pub async fn keep_renewed(self, tls: Tls, mut made: OffsetDateTime, clock: impl Fn() -> OffsetDateTime) {
        let pause = (self.lifetime / 30).clamp(Duration::from_millis(100), MAX_INTERVAL);
        loop {
            tokio::time::sleep(pause).await;
            made = self.renew_if_due(&tls, made, clock());
        }
    }
}

/// The path of the administrator's kubeconfig.
pub fn kubeconfig_path(directory: &Path) -> PathBuf {
    directory.join("admin.kubeconfig")
}

#[cfg(test)]
mod tests {
    use atoll_authn::authority::Purpose;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::Value;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    /// Expiry of the certificate in the kubeconfig, in seconds since 1970.
    fn expiry(path: &Path) -> i64 {
        let text = std::fs::read_to_string(path).expect("a kubeconfig");
        let config: Value = serde_saphyr::from_str(&text).expect("YAML");
        let pem = config["users"][0]["user"]["client-certificate-data"].as_str().unwrap_or_default();
        let pem = STANDARD.decode(pem).expect("base64");
        atoll_authn::certificate::expiry(&pem).expect("a certificate")
    }

    #[test]
    fn certificates_are_renewed_after_two_thirds_of_their_lifetime() {
        let directory = tempfile::tempdir().expect("a directory");
        let made = OffsetDateTime::now_utc();
        let year = DAY * 365;
        // Days on the clock since the certificates were made, and by how many days their expiry then moves.
        for (days, expected) in [(0, 0), (243, 0), (244, 244), (364, 364), (400, 400), (-1, -1)] {
            let certificates = Certificates {
                name: "atoll".into(),
                control: None,
                other: None,
                kubelets: None,
                authority: Arc::new(Authority::open(directory.path(), made).expect("an authority")),
                workspaces: Arc::new(
                    Authority::open_for(Purpose::Workspaces, directory.path(), made).expect("an authority"),
                ),
                listening: IpAddr::V4(Ipv4Addr::LOCALHOST),
                advertised: SocketAddr::from(([127, 0, 0, 1], 1)),
                kubeconfig: kubeconfig_path(directory.path()),
                lifetime: year,
            };
            let tls = certificates.tls(made).expect("a certificate");
            certificates.write_kubeconfig(made).expect("a kubeconfig");
            let path = certificates.kubeconfig.clone();
            let moved = std::fs::read_to_string(&path)
                .expect("a kubeconfig")
                .replace(":1\n", ":1/clusters/root:team\n");
            std::fs::write(&path, moved).expect("it can be written");
            let before = expiry(&path);
            let now = made + time::Duration::days(days);
            let renewed = certificates.renew_if_due(&tls, made, now);
            assert_eq!(renewed != made, expected != 0, "after {days} days");
            assert_eq!(certificates.renew_if_due(&tls, renewed, now), renewed, "once is enough");
            assert_eq!((expiry(&path) - before) / 86_400, expected, "after {days} days");
            let text = std::fs::read_to_string(&path).expect("a kubeconfig");
            assert!(text.contains("/clusters/root:team"), "where it points to stays: {text}");
        }
    }
}
