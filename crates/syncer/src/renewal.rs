//! Tokens of ServiceAccounts are renewed long before they expire, by whoever has them: an account may ask for tokens of its own.

use std::sync::Arc;
use std::time::Duration;

use atoll_client::Client;
use atoll_client::kubeconfig::is_token;
use atoll_informer::Clock;
use atoll_meta::{Status, time};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::settings::Random;

/// A server that has not answered by then will not.
const PATIENCE: Duration = Duration::from_secs(30);
/// The least that servers give.
const SHORTEST: i64 = 600;

/// Says when it is good, but never what it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: String,
    /// Where others can be asked for.
    path: String,
    /// In seconds since 1970.
    issued: i64,
    expires: i64,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Token({}, {}..{})", self.path, self.issued, self.expires)
    }
}

impl Token {
    /// What a token says of itself, if it is one of a ServiceAccount that expires. Whether that is true is for its server to say.
    pub fn read(text: &str) -> Option<Token> {
        if !is_token(text) {
            return None;
        }
        let payload = URL_SAFE_NO_PAD.decode(text.split('.').nth(1)?).ok()?;
        let claims: Value = serde_json::from_slice(&payload).ok()?;
        let account = claims["sub"].as_str()?.strip_prefix("system:serviceaccount:")?;
        let (namespace, name) = account.split_once(':')?;
        let path = format!(
            "/api/v1/namespaces/{}/serviceaccounts/{}/token",
            atoll_informer::encoded(namespace),
            atoll_informer::encoded(name)
        );
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

    /// The same, but good no longer than until then.
    #[must_use]
    pub fn until(self, expires: Option<&str>) -> Token {
        let sooner = expires.and_then(|text| time::parse(text).ok()).map(|until| until.seconds);
        let expires = sooner.map_or(self.expires, |sooner| sooner.min(self.expires));
        Token { expires, issued: self.issued.min(expires), ..self }
    }

    fn life(&self) -> i64 {
        self.expires - self.issued
    }

    /// How old it may get.
    fn age(&self, random: &Random) -> i64 {
        let tenth = self.life() / 10;
        let share = i64::try_from(random() % 1000).unwrap_or(0);
        tenth * 8 - tenth * share / 1000
    }

    /// Asks for another one that is good for as long.
    pub async fn renew(&self, client: &Client) -> Result<Token, Status> {
        let own = Token::read(&self.text).unwrap_or_else(|| self.clone());
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "expirationSeconds": own.life().max(SHORTEST) },
        });
        let answer = tokio::time::timeout(PATIENCE, client.create(&self.path, &request)).await;
        let answer = answer.unwrap_or_else(|_| Err(Status::service_unavailable("no answer in time")))?;
        let text = answer["status"]["token"].as_str().unwrap_or_default();
        let renewed = Token::read(text).ok_or_else(|| {
            Status::internal_error(
                "the server gave something else than a token of a ServiceAccount that expires",
            )
        })?;
        // It must be one of the same account: nothing else was asked for.
        match renewed.path == self.path {
            true => Ok(renewed),
            false => Err(Status::internal_error("the server gave a token of another ServiceAccount")),
        }
    }
}

/// When a token is to be renewed: after four fifths of its life at the latest, and up to a tenth before that, so that not all are
/// renewed at once. It is so once the clock says so, or once that much time has passed here: clocks are set back, too.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    at: i64,
    by: Instant,
}

impl Due {
    /// Of a token that was found somewhere.
    pub fn of(token: &Token, now: i64, random: &Random) -> Due {
        let age = token.age(random);
        let at = token.issued.saturating_add(age);
        let left = at.saturating_sub(now).clamp(0, age);
        Due { at, by: Instant::now() + Duration::from_secs(left.unsigned_abs()) }
    }

    /// Of one that was made just now, whatever our clock thinks of the time at which it says it was.
    pub fn fresh(token: &Token, now: i64, random: &Random) -> Due {
        let age = token.age(random);
        Due { at: now.saturating_add(age), by: Instant::now() + Duration::from_secs(age.unsigned_abs()) }
    }

    /// How long until then.
    pub fn left(&self, now: i64) -> Duration {
        let by_clock = Duration::from_secs(u64::try_from(self.at.saturating_sub(now)).unwrap_or(0));
        by_clock.min(self.by.saturating_duration_since(Instant::now()))
    }
}

/// Where a token is kept.
pub trait Keeper: Send + Sync {
    /// The token that is there now.
    fn current(&self) -> Result<Token, String>;

    /// Puts another one in the place of the one that is there.
    fn replace(&self, old: &Token, new: &Token) -> Result<(), String>;
}

/// How often it is looked whether somebody else has put another one there.
const LOOK: Duration = Duration::from_secs(30);
/// After a failure.
const AGAIN: Duration = Duration::from_secs(60);

/// Renews a token whenever that is due, and takes one that somebody else has put in its place, for as long as it is polled. Who
/// uses it is told with `adopt`, at the beginning too.
pub async fn keep(
    client: Client,
    keeper: Arc<dyn Keeper>,
    clock: Arc<dyn Clock>,
    random: Random,
    adopt: impl Fn(&Token) + Send,
) {
    let Ok(mut token) = keeper.current() else { return };
    // The one that is known to be where tokens are kept.
    let mut kept = token.clone();
    let mut due = Due::of(&token, clock.now().seconds, &random);
    adopt(&token);
    loop {
        tokio::time::sleep(due.left(clock.now().seconds).min(LOOK)).await;
        if let Ok(current) = keeper.current()
            && current.text != kept.text
        {
            tracing::info!(account = current.path, "somebody has put another token there");
            adopt(&current);
            due = Due::of(&current, clock.now().seconds, &random);
            kept.clone_from(&current);
            token = current;
            continue;
        }
        // What could not be kept then may be kept now.
        if kept.text != token.text && keeper.replace(&kept, &token).is_ok() {
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
                    "renewed a token"
                );
                match keeper.replace(&kept, &renewed) {
                    Ok(()) => kept.clone_from(&renewed),
                    // It does for as long as this process lives, and is tried again.
                    Err(problem) => {
                        tracing::warn!(
                            "the new token is used but cannot be kept: {problem}; the old one expires {expires}"
                        );
                    }
                }
                adopt(&renewed);
                due = Due::fresh(&renewed, clock.now().seconds, &random);
                token = renewed;
            }
            Err(status) => {
                tracing::warn!(account = token.path, expires, %status, "cannot renew a token; trying again");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
