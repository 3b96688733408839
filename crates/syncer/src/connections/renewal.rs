//! Renews ServiceAccount tokens long before they expire. An account may request tokens for itself.

use std::sync::Arc;
use std::time::Duration;

use atoll_client::Client;
use atoll_client::kubeconfig::is_token;
use atoll_client::path;
use atoll_informer::Clock;
use atoll_meta::{Status, time};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::settings::Random;

/// Request timeout.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Shortest lifetime that API servers grant, in seconds.
const SHORTEST: i64 = 600;

/// A ServiceAccount token with its validity. The debug output omits the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: String,
    /// Path of the TokenRequest subresource.
    path: String,
    /// Issue and expiry time in seconds since 1970.
    issued: i64,
    expires: i64,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Token({}, {}..{})", self.path, self.issued, self.expires)
    }
}

impl Token {
    /// Parses a ServiceAccount token with an expiry. The signature is not verified.
    pub fn read(text: &str) -> Option<Token> {
        if !is_token(text) {
            return None;
        }
        let payload = URL_SAFE_NO_PAD.decode(text.split('.').nth(1)?).ok()?;
        let claims: Value = serde_json::from_slice(&payload).ok()?;
        let account = claims["sub"].as_str()?.strip_prefix("system:serviceaccount:")?;
        let (namespace, name) = account.split_once(':')?;
        let accounts = path::collection("", "v1", namespace, "serviceaccounts");
        let path = format!("{}/token", path::object(&accounts, name));
        let expires = claims["exp"].as_i64()?;
        let issued = claims["iat"].as_i64().unwrap_or(expires).min(expires);
        Some(Token { text: text.to_string(), path, issued, expires })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn expires(&self) -> i64 {
        self.expires
    }

    /// Limits the expiry of the token.
    #[must_use]
    pub fn until(self, expires: Option<&str>) -> Token {
        let sooner = expires.and_then(|text| time::parse(text).ok()).map(|until| until.seconds);
        let expires = sooner.map_or(self.expires, |sooner| sooner.min(self.expires));
        Token { expires, issued: self.issued.min(expires), ..self }
    }

    fn life(&self) -> i64 {
        self.expires - self.issued
    }

    /// Returns the age at which the token is renewed.
    fn age(&self, random: &Random) -> i64 {
        let tenth = self.life() / 10;
        let share = i64::try_from(random() % 1000).unwrap_or(0);
        tenth * 8 - tenth * share / 1000
    }

    /// Requests a new token with the same lifetime.
    pub async fn renew(&self, client: &Client) -> Result<Token, Status> {
        let own = Token::read(&self.text).unwrap_or_else(|| self.clone());
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "expirationSeconds": own.life().max(SHORTEST) },
        });
        let answer = tokio::time::timeout(TIMEOUT, client.create(&self.path, &request)).await;
        let answer = answer.unwrap_or_else(|_| Err(Status::service_unavailable("no response in time")))?;
        let text = answer["status"]["token"].as_str().unwrap_or_default();
        let renewed = Token::read(text).ok_or_else(|| {
            Status::internal_error("the server did not return a ServiceAccount token with an expiry")
        })?;
        // The token must belong to the same account.
        match renewed.path == self.path {
            true => Ok(renewed),
            false => Err(Status::internal_error("the server returned a token of another ServiceAccount")),
        }
    }
}

/// Time at which a token is renewed: after four fifths of its lifetime, and up to a tenth earlier, so that
/// not all tokens are renewed at once. It is reached when the clock says so, or when that much time has
/// passed since the token was read, because a clock may be set back.
#[derive(Clone, Copy, Debug)]
pub struct RenewalTime {
    at: i64,
    by: Instant,
}

impl RenewalTime {
    /// Returns the renewal time of a token that was read.
    pub fn of(token: &Token, now: i64, random: &Random) -> RenewalTime {
        let age = token.age(random);
        let at = token.issued.saturating_add(age);
        let left = at.saturating_sub(now).clamp(0, age);
        RenewalTime { at, by: Instant::now() + Duration::from_secs(left.unsigned_abs()) }
    }

    /// Returns the renewal time of a token that was just issued, independent of its issue time.
    pub fn fresh(token: &Token, now: i64, random: &Random) -> RenewalTime {
        let age = token.age(random);
        RenewalTime {
            at: now.saturating_add(age),
            by: Instant::now() + Duration::from_secs(age.unsigned_abs()),
        }
    }

    /// Returns the remaining time.
    pub fn left(&self, now: i64) -> Duration {
        let by_clock = Duration::from_secs(u64::try_from(self.at.saturating_sub(now)).unwrap_or(0));
        by_clock.min(self.by.saturating_duration_since(Instant::now()))
    }
}

/// Storage of a token.
pub trait TokenStore: Send + Sync {
    /// Returns the stored token.
    fn current(&self) -> Result<Token, String>;

    /// Replaces the stored token.
    fn replace(&self, old: &Token, new: &Token) -> Result<(), String>;
}

/// Interval of checks whether another process has stored a new token.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Pause after a failed renewal.
const RETRY_PAUSE: Duration = Duration::from_secs(60);

/// Renews a token whenever it is due, and uses a token that another process has stored, for as long as it is
/// polled. Calls `adopt` with each token, including the first.
pub async fn keep_renewed(
    client: Client,
    store: Arc<dyn TokenStore>,
    clock: Arc<dyn Clock>,
    random: Random,
    adopt: impl Fn(&Token) + Send,
) {
    let Ok(mut token) = store.current() else { return };
    // The token that is known to be stored.
    let mut kept = token.clone();
    let mut due = RenewalTime::of(&token, clock.now().seconds, &random);
    adopt(&token);
    loop {
        tokio::time::sleep(due.left(clock.now().seconds).min(CHECK_INTERVAL)).await;
        if let Ok(current) = store.current()
            && current.text != kept.text
        {
            tracing::info!(account = current.path, "another process stored a new token");
            adopt(&current);
            due = RenewalTime::of(&current, clock.now().seconds, &random);
            kept.clone_from(&current);
            token = current;
            continue;
        }
        // Try again to store a token that could not be stored.
        if kept.text != token.text && store.replace(&kept, &token).is_ok() {
            kept.clone_from(&token);
        }
        if !due.left(clock.now().seconds).is_zero() {
            continue;
        }
        let expires = time::format(token.expires);
        match token.renew(&client).await {
            Ok(renewed) => {
                tracing::info!(
                    account = renewed.path,
                    expires = time::format(renewed.expires),
                    "renewed the token"
                );
                match store.replace(&kept, &renewed) {
                    Ok(()) => kept.clone_from(&renewed),
                    // The new token works for this process; storing it is tried again.
                    Err(problem) => {
                        tracing::warn!(
                            "the new token is in use but cannot be stored: {problem}; the stored token expires at {expires}"
                        );
                    }
                }
                adopt(&renewed);
                due = RenewalTime::fresh(&renewed, clock.now().seconds, &random);
                token = renewed;
            }
            Err(status) => {
                tracing::warn!(account = token.path, expires, %status, "cannot renew the token; retrying");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
