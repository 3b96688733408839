//! The credential of an agent in pull mode: a key and a certificate in a Secret of its own cluster.
//!
//! ```text
//!   Secret: join token ─► key (stored first) ─► certificate (for this key only) ─► renewed with a new key
//! ```
//!
//! Each step is stored before the next one begins, so that an agent that is killed continues where it was.

use std::sync::Arc;
use std::time::Duration;

use atoll_authn::{certificate, request};
use atoll_client::Client;
use atoll_client::https::{Endpoint, Https};
use atoll_client::path::encoded;
use atoll_fleet::agent::AGENT;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_informer::{Clock, SystemClock};
use atoll_syncer::Random;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Names in the Secret.
const SERVER: &str = "server";
const AUTHORITY: &str = "ca.crt";
const USER: &str = "user";
const TOKEN: &str = "token";
/// The key that the token is used for.
const JOINING_KEY: &str = "joining.key";
const KEY: &str = "tls.key";
const CERTIFICATE: &str = "tls.crt";

/// Pause after a failed attempt.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Interval of checks whether the certificate must be renewed.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
const SECRET_TIMEOUT: Duration = Duration::from_secs(60);

/// The Secret of an agent.
struct AgentSecret(Value);

impl AgentSecret {
    fn path() -> String {
        format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets/{AGENT}")
    }

    async fn read(below: &Client) -> Result<AgentSecret, String> {
        let reading = tokio::time::timeout(SECRET_TIMEOUT, below.get(&AgentSecret::path())).await;
        let read = reading.map_err(|_| "the cluster does not respond".to_string())?;
        read.map(AgentSecret).map_err(|status| format!("Secret {SYSTEM_NAMESPACE}/{AGENT}: {status}"))
    }

    /// Stores the Secret, unless it has changed since it was read.
    async fn store(&mut self, below: &Client) -> Result<(), String> {
        let storing = tokio::time::timeout(SECRET_TIMEOUT, below.update(&AgentSecret::path(), &self.0)).await;
        let stored = storing.map_err(|_| "the cluster does not respond".to_string())?;
        self.0 = stored.map_err(|status| format!("Secret {SYSTEM_NAMESPACE}/{AGENT}: {status}"))?;
        Ok(())
    }

    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        STANDARD.decode(self.0["data"][name].as_str()?).ok().filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str) -> Result<String, String> {
        let missing = || format!("Secret {SYSTEM_NAMESPACE}/{AGENT} has no {name}; join the cluster again");
        self.bytes(name).and_then(|value| String::from_utf8(value).ok()).ok_or_else(missing)
    }

    fn set(&mut self, name: &str, value: &str) {
        self.0["data"][name] = STANDARD.encode(value).into();
    }

    fn remove(&mut self, name: &str) {
        self.0["data"].as_object_mut().map(|data| data.remove(name));
    }

    /// The control plane without a credential.
    fn server(&self) -> Result<Endpoint, String> {
        let authority_pem = self.text(AUTHORITY)?.into_bytes();
        Ok(Endpoint { server: self.text(SERVER)?, authority_pem, ..Endpoint::default() })
    }

    /// The control plane with the certificate, if there is one that has not expired.
    fn certified(&self, now: i64) -> Result<Option<Endpoint>, String> {
        let (Some(certificate), Some(key)) = (self.bytes(CERTIFICATE), self.bytes(KEY)) else {
            return Ok(None);
        };
        let is_valid = certificate::expiry(&certificate).is_some_and(|expires| now < expires);
        let server = self.server()?;
        Ok(is_valid.then_some(Endpoint { certificate_pem: Some(certificate), key_pem: Some(key), ..server }))
    }
}

/// Returns the control plane with the agent's certificate. Without one, it joins with the token.
pub async fn obtain(below: &Client, cluster: &str) -> Https {
    let mut last = String::new();
    loop {
        match try_to_obtain(below, cluster).await {
            Ok(transport) => return transport,
            Err(problem) if problem == last => {}
            Err(problem) => {
                tracing::warn!(cluster, "cannot join the control plane: {problem}; retrying");
                last = problem;
            }
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

async fn try_to_obtain(below: &Client, cluster: &str) -> Result<Https, String> {
    let mut secret = AgentSecret::read(below).await?;
    let current = secret.certified(SystemClock.now().seconds)?;
    // A token means that the cluster was joined again, perhaps as another Cluster, or that an old manifest was
    // applied again.
    let joined = match (&current, secret.bytes(TOKEN)) {
        (Some(_), None) => Ok(()),
        _ => join(&mut secret, below, cluster).await,
    };
    match (joined, current) {
        (Ok(()), _) => {
            let endpoint = secret.certified(SystemClock.now().seconds)?;
            Https::new(&endpoint.ok_or("the control plane has issued a certificate that is not valid")?)
        }
        (Err(problem), Some(endpoint)) => {
            tracing::warn!(cluster, "cannot use the join token: {problem}; using the certificate");
            Https::new(&endpoint)
        }
        (Err(problem), None) => Err(problem),
    }
}

/// Exchanges the token for a certificate. The key is stored before the request, because the token is good for no
/// other; the current certificate is kept until there is a new one.
async fn join(secret: &mut AgentSecret, below: &Client, cluster: &str) -> Result<(), String> {
    let (token, user, server) = (secret.text(TOKEN)?, secret.text(USER)?, secret.server()?);
    let key = match secret.bytes(JOINING_KEY) {
        Some(_) => secret.text(JOINING_KEY)?,
        None => {
            let key = request::key().map_err(|error| error.to_string())?;
            secret.set(JOINING_KEY, &key);
            secret.store(below).await?;
            key
        }
    };
    let joining = Endpoint { token: Some(token), ..server };
    let above = Client::new(Arc::new(Https::new(&joining)?));
    let certificate = request_certificate(&above, cluster, &user, &key).await?;
    secret.set(KEY, &key);
    secret.set(CERTIFICATE, &certificate);
    secret.remove(TOKEN);
    secret.remove(JOINING_KEY);
    secret.store(below).await?;
    tracing::info!(cluster, "joined the control plane");
    Ok(())
}

/// Asks for a certificate for a key.
async fn request_certificate(above: &Client, cluster: &str, user: &str, key: &str) -> Result<String, String> {
    let request = request::create(user, key).map_err(|error| error.to_string())?;
    let path = format!("/services/sync/{}/certificate", encoded(cluster));
    let body = json!({ "request": request });
    let answer = tokio::time::timeout(SECRET_TIMEOUT, above.create(&path, &body)).await;
    let answer = answer.map_err(|_| "the control plane does not respond".to_string())?;
    let answer = answer.map_err(|status| status.to_string())?;
    let certificate =
        answer["certificate"].as_str().filter(|pem| certificate::expiry(pem.as_bytes()).is_some());
    certificate.map(str::to_string).ok_or_else(|| "the control plane has issued no certificate".to_string())
}

/// Renews the certificate when a fifth of its lifetime is left, and uses new join tokens, for as long as it is
/// polled.
pub async fn keep_renewed(below: Client, above: Arc<Https>, cluster: String, random: Random) {
    let mut last = String::new();
    loop {
        // Not all agents at once.
        let part = u32::try_from(random() % 1000).unwrap_or(0);
        tokio::time::sleep(CHECK_INTERVAL / 2 + CHECK_INTERVAL / 2 * part / 1000).await;
        match renew_if_due(&below, &above, &cluster).await {
            Ok(()) => last.clear(),
            Err(problem) if problem == last => {}
            Err(problem) => {
                tracing::warn!(cluster, "cannot renew the certificate: {problem}; retrying");
                last = problem;
            }
        }
    }
}

async fn renew_if_due(below: &Client, above: &Arc<Https>, cluster: &str) -> Result<(), String> {
    let mut secret = AgentSecret::read(below).await?;
    let mut unused = Ok(());
    if secret.bytes(TOKEN).is_some() {
        unused = join(&mut secret, below, cluster).await;
        if unused.is_ok() {
            return use_certificate(&secret, above).await;
        }
        // It may have changed meanwhile.
        secret = AgentSecret::read(below).await?;
    }
    let current = secret.bytes(CERTIFICATE).unwrap_or_default();
    let (from, until) =
        certificate::validity(&current).ok_or("the Secret has no certificate; restart the agent")?;
    if SystemClock.now().seconds < until - (until - from) / 5 {
        return unused;
    }
    let key = request::key().map_err(|error| error.to_string())?;
    let certificate =
        request_certificate(&Client::new(above.clone()), cluster, &secret.text(USER)?, &key).await?;
    secret.set(KEY, &key);
    secret.set(CERTIFICATE, &certificate);
    // The current certificate stays valid if this fails.
    secret.store(below).await?;
    use_certificate(&secret, above).await?;
    tracing::info!(cluster, "renewed the certificate");
    unused
}

/// Uses the certificate in the Secret for all later requests.
async fn use_certificate(secret: &AgentSecret, above: &Https) -> Result<(), String> {
    let (certificate, key) = (secret.text(CERTIFICATE)?, secret.text(KEY)?);
    above.use_certificate(certificate.as_bytes(), key.as_bytes()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_keep_the_certificate_until_it_expires() {
        let mut secret = AgentSecret(json!({ "data": {} }));
        assert!(secret.text(SERVER).unwrap_err().contains("join the cluster again"));
        secret.set(SERVER, "https://above:6443");
        secret.set(AUTHORITY, "authority");
        assert_eq!(secret.certified(0).unwrap().map(|endpoint| endpoint.server), None);
        let directory = tempfile::tempdir().unwrap();
        let now = time::OffsetDateTime::now_utc();
        let authority = atoll_authn::authority::Authority::open(directory.path(), now).unwrap();
        let lifetime = Duration::from_secs(600);
        let identity = authority.client("agent", None, now, lifetime).unwrap();
        secret.set(KEY, &identity.key_pem);
        secret.set(CERTIFICATE, &identity.certificate_pem);
        let found = secret.certified(now.unix_timestamp()).unwrap().unwrap();
        assert_eq!(found.server, "https://above:6443");
        assert_eq!(found.key_pem, Some(identity.key_pem.into_bytes()));
        assert!(secret.certified(now.unix_timestamp() + 601).unwrap().is_none());
    }
}
