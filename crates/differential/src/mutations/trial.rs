//! Applies changes to one sample and sends them to both servers.

use std::fmt;

use atoll_schema::Types;
use atoll_testkit::{ApiResponse, Client, ClientError, RequestContent};
use http::Method;
use serde_json::{Value, json};

use super::changes;
use super::pointer::Mutation;
use super::samples::Sample;
use super::verdict::WriteVerdict;

/// A change with the verdicts of both servers.
pub struct Trial {
    pub operation: TrialOperation,
    pub change: Mutation,
    pub atoll: WriteVerdict,
    pub upstream: WriteVerdict,
}

/// The operation and the object that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialOperation {
    CreateFull,
    CreateMinimal,
    UpdateFull,
    UpdateMinimal,
}

impl Trial {
    pub fn agrees(&self) -> bool {
        self.atoll.agrees(&self.upstream)
    }
}

impl fmt::Display for TrialOperation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            TrialOperation::CreateFull => "create full",
            TrialOperation::CreateMinimal => "create minimal",
            TrialOperation::UpdateFull => "update full",
            TrialOperation::UpdateMinimal => "update minimal",
        })
    }
}

/// Clients of the two servers.
pub struct ServerPair {
    pub atoll: Client,
    pub upstream: Client,
}

/// Number and seed of the changes.
#[derive(Clone, Copy)]
pub struct TrialSettings {
    /// Number of changes of a kind, over all operations.
    pub changes: usize,
    pub seed: u64,
}

/// Runs all trials of `sample`. Errors are failures of the setup; disagreements are part of the result.
pub async fn run(pair: &ServerPair, sample: &Sample, settings: TrialSettings) -> Result<Vec<Trial>, String> {
    let mut trials = Vec::new();
    if sample.resource.namespaced {
        let namespace = json!({"metadata": {"name": sample.namespace()}});
        for client in [&pair.atoll, &pair.upstream] {
            let answer =
                send(client, Method::POST, "/api/v1/namespaces", &namespace).await.map_err(to_text)?;
            if answer.status != 201 {
                return Err(format!("namespace: {}", answer.text()));
            }
        }
    }
    // Dry-run creates run first, while no object of this kind is stored, so that they do not fail with
    // AlreadyExists.
    for (operation, base, tenths) in
        [(TrialOperation::CreateFull, &sample.full, 4), (TrialOperation::CreateMinimal, &sample.minimal, 2)]
    {
        for change in selected(sample, base, settings, tenths)? {
            trials.push(create(pair, sample, operation, base, change).await?);
        }
    }
    if sample.is_stored() {
        for (operation, base, tenths) in [
            (TrialOperation::UpdateFull, &sample.full, 3),
            (TrialOperation::UpdateMinimal, &sample.minimal, 1),
        ] {
            let mut stored = StoredObject::create(pair, sample, base).await?;
            for change in selected(sample, &stored.upstream, settings, tenths)? {
                trials.push(stored.update(pair, operation, change).await?);
            }
        }
    }
    // Some schemas of custom resources make kube-apiserver panic. These trials are ignored.
    trials.retain(|trial| trial.upstream != WriteVerdict::ConnectionClosed);
    Ok(trials)
}

fn selected(
    sample: &Sample,
    base: &Value,
    settings: TrialSettings,
    tenths: usize,
) -> Result<Vec<Mutation>, String> {
    let id = sample.resource.type_id.ok_or("the kind has no type")?;
    let count = settings.changes.saturating_mul(tenths).div_ceil(10);
    Ok(changes::select(changes::all(Types::get(), id, base), count, settings.seed))
}

async fn create(
    pair: &ServerPair,
    sample: &Sample,
    operation: TrialOperation,
    base: &Value,
    change: Mutation,
) -> Result<Trial, String> {
    let mut object = base.clone();
    change.apply(&mut object);
    let path = format!("{}?dryRun=All", sample.collection());
    let (atoll, upstream) = tokio::join!(
        send(&pair.atoll, Method::POST, &path, &object),
        send(&pair.upstream, Method::POST, &path, &object)
    );
    Ok(Trial { operation, change, atoll: WriteVerdict::of(atoll)?, upstream: WriteVerdict::of(upstream)? })
}

/// An object as each server has stored it.
struct StoredObject {
    path: String,
    atoll: Value,
    upstream: Value,
}

impl StoredObject {
    /// Creates the object on both servers. If Atoll rejects it, every later update counts as a disagreement.
    async fn create(pair: &ServerPair, sample: &Sample, base: &Value) -> Result<StoredObject, String> {
        let collection = sample.collection();
        let (atoll, upstream) = tokio::join!(
            send(&pair.atoll, Method::POST, &collection, base),
            send(&pair.upstream, Method::POST, &collection, base)
        );
        let (atoll, upstream) = (atoll.map_err(to_text)?, upstream.map_err(to_text)?);
        if upstream.status != 201 {
            return Err(format!("kube-apiserver rejects the sample: {}", upstream.text()));
        }
        let path = format!("{collection}/{}", base["metadata"]["name"].as_str().unwrap_or_default());
        let atoll = atoll.json_or_null();
        let atoll = if atoll["kind"] == base["kind"] { atoll } else { Value::Null };
        Ok(StoredObject { path, atoll, upstream: upstream.json_or_null() })
    }

    async fn update(
        &mut self,
        pair: &ServerPair,
        operation: TrialOperation,
        change: Mutation,
    ) -> Result<Trial, String> {
        let (atoll, upstream) = tokio::join!(
            update(&pair.atoll, &self.path, &mut self.atoll, &change),
            update(&pair.upstream, &self.path, &mut self.upstream, &change)
        );
        Ok(Trial { operation, change, atoll: atoll?, upstream: upstream? })
    }
}

/// Sends `stored` with the change. If a controller of the server changed the object meanwhile, reads it and
/// tries again.
async fn update(
    client: &Client,
    path: &str,
    stored: &mut Value,
    change: &Mutation,
) -> Result<WriteVerdict, String> {
    for _ in 0..5 {
        let mut object = stored.clone();
        if !change.apply(&mut object) {
            return Ok(WriteVerdict::Inapplicable);
        }
        let verdict =
            WriteVerdict::of(send(client, Method::PUT, &format!("{path}?dryRun=All"), &object).await)?;
        if !verdict.is_conflict() {
            return Ok(verdict);
        }
        let current = client
            .try_request(Method::GET, path, RequestContent::None)
            .await
            .map_err(to_text)?
            .json_or_null();
        if current["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"] {
            return Ok(verdict);
        }
        *stored = current;
    }
    Err(format!("{path} changes too often: five conflicts in a row"))
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    object: &Value,
) -> Result<ApiResponse, ClientError> {
    client.try_request(method, path, RequestContent::Json(object.clone())).await
}

fn to_text(error: ClientError) -> String {
    error.to_string()
}
