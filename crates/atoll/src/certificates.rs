//! Atoll's own certificates: the one it serves, and the administrator's in the kubeconfig. Both are renewed in good time,
//! without a restart; the authority that signs them stays.

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

/// Names that Pods know the API by.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// At least this often the clock is looked at: it may have been set, or the machine asleep.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// What our certificates are made of.
pub struct Certificates {
    /// What the administrator's context is called.
    pub name: String,
    pub authority: Arc<Authority>,
    /// Signs client certificates that are good in one workspace only.
    pub workspaces: Arc<Authority>,
    pub listening: IpAddr,
    pub advertised: SocketAddr,
    /// Another address for the administrator alone.
    pub control: Option<SocketAddr>,
    pub kubeconfig: PathBuf,
    /// Another kubeconfig that the administrator is in.
    pub other: Option<PathBuf>,
    pub lifetime: Duration,
    /// Where the certificate is used that nodes are called with, if it is one of ours.
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

    /// Writes the administrator's kubeconfig, new from top to bottom. Returns who that is.
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
        let text = kubeconfig::text(&[entry], &self.name);
        write_private(&self.kubeconfig, &text).map_err(|error| error.to_string())?;
        Ok(identity)
    }

    /// Both certificates anew. Which server and workspace the kubeconfig points to stays.
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
            // Somebody has moved it away or made something else of it.
            Err(_) => self.write_kubeconfig(now).map(|_| ()),
        }
    }

    /// When what was made at `made` is to be made again.
    fn is_due(&self, made: OffsetDateTime, now: OffsetDateTime) -> bool {
        let age = now - made;
        // A clock that went back by much says nothing about ages.
        age >= self.lifetime * 2 / 3 || age < -time::Duration::minutes(5)
    }

    /// Renews what is due, and returns when what is there now was made.
    fn look(&self, tls: &Tls, made: OffsetDateTime, now: OffsetDateTime) -> OffsetDateTime {
        if !self.is_due(made, now) {
            return made;
        }
        match self.renew(tls, now) {
            Ok(()) => {
                tracing::info!("renewed the certificates of the server and of its administrator");
                now
            }
            Err(error) => {
                tracing::error!(error, "the certificates cannot be renewed; trying again");
                made
            }
        }
    }

    /// Renews for as long as the server runs.
    pub async fn keep_fresh(self, tls: Tls, mut made: OffsetDateTime, clock: impl Fn() -> OffsetDateTime) {
        let pause = (self.lifetime / 30).clamp(Duration::from_millis(100), LONGEST_PAUSE);
        loop {
            tokio::time::sleep(pause).await;
            made = self.look(&tls, made, clock());
        }
    }
}

/// Where the administrator's kubeconfig is.
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

    /// When the certificate in the kubeconfig expires, in seconds since 1970.
    fn expiry(path: &Path) -> i64 {
        let text = std::fs::read_to_string(path).expect("a kubeconfig");
        let config: Value = serde_saphyr::from_str(&text).expect("YAML");
        let pem = config["users"][0]["user"]["client-certificate-data"].as_str().unwrap_or_default();
        let pem = STANDARD.decode(pem).expect("base64");
        atoll_authn::certificate::expiry(&pem).expect("a certificate")
    }

    #[test]
    fn certificates_are_renewed_when_two_thirds_of_their_time_are_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let made = OffsetDateTime::now_utc();
        let year = DAY * 365;
        // The clock, as days since they were made, and by how much later than at first they then expire.
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
            let renewed = certificates.look(&tls, made, now);
            assert_eq!(renewed != made, expected != 0, "after {days} days");
            assert_eq!(certificates.look(&tls, renewed, now), renewed, "once is enough");
            assert_eq!((expiry(&path) - before) / 86_400, expected, "after {days} days");
            let text = std::fs::read_to_string(&path).expect("a kubeconfig");
            assert!(text.contains("/clusters/root:team"), "where it points to stays: {text}");
        }
    }
}
