//! One sample before both servers, change by change.

use std::fmt;

use atoll_schema::Types;
use atoll_testkit::{Client, Error};
use serde_json::{Value, json};

use super::changes;
use super::pointer::Change;
use super::samples::Sample;
use super::verdict::Verdict;

/// One change and what both servers said to it.
pub struct Trial {
    pub deed: Deed,
    pub change: Change,
    pub ours: Verdict,
    pub theirs: Verdict,
}

/// What is done with which of the two objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    CreateFull,
    CreateMinimal,
    UpdateFull,
    UpdateMinimal,
}

impl Trial {
    pub fn agrees(&self) -> bool {
        self.ours.agrees(&self.theirs)
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Deed::CreateFull => "create full",
            Deed::CreateMinimal => "create minimal",
            Deed::UpdateFull => "update full",
            Deed::UpdateMinimal => "update minimal",
        })
    }
}

/// The two servers, each with a connection of its own.
pub struct Pair {
    pub ours: Client,
    pub theirs: Client,
}

/// How much to try.
#[derive(Clone, Copy)]
pub struct Amount {
    /// Changes of a kind, over all deeds.
    pub changes: usize,
    pub seed: u64,
}

/// Everything that is to be tried with `sample`. Only what is in the way of trying at all is an error.
pub async fn run(pair: &Pair, sample: &Sample, amount: Amount) -> Result<Vec<Trial>, String> {
    let mut trials = Vec::new();
    if sample.resource.namespaced {
        let namespace = json!({"metadata": {"name": sample.namespace()}});
        for client in [&pair.ours, &pair.theirs] {
            let answer = client.post("/api/v1/namespaces", &namespace).await.map_err(told)?;
            if answer.status != 201 {
                return Err(format!("namespace: {}", answer.text()));
            }
        }
    }
    // While nothing of this kind is stored: an object that is good must not fail because it is there already.
    for (deed, base, tenths) in
        [(Deed::CreateFull, &sample.full, 4), (Deed::CreateMinimal, &sample.minimal, 2)]
    {
        for change in drawn(sample, base, amount, tenths)? {
            trials.push(create(pair, sample, deed, base, change).await?);
        }
    }
    if sample.is_stored() {
        for (deed, base, tenths) in
            [(Deed::UpdateFull, &sample.full, 3), (Deed::UpdateMinimal, &sample.minimal, 1)]
        {
            let mut stored = Stored::create(pair, sample, base).await?;
            for change in drawn(sample, &stored.theirs, amount, tenths)? {
                trials.push(stored.update(pair, deed, change).await?);
            }
        }
    }
    // Some schemas of custom resources make kube-apiserver panic. That is nothing to agree with.
    trials.retain(|trial| trial.theirs != Verdict::Silent);
    Ok(trials)
}

fn drawn(sample: &Sample, base: &Value, amount: Amount, tenths: usize) -> Result<Vec<Change>, String> {
    let id = sample.resource.type_id.ok_or("a kind without a type")?;
    let count = amount.changes.saturating_mul(tenths).div_ceil(10);
    Ok(changes::draw(changes::all(Types::get(), id, base), count, amount.seed))
}

async fn create(
    pair: &Pair,
    sample: &Sample,
    deed: Deed,
    base: &Value,
    change: Change,
) -> Result<Trial, String> {
    let mut object = base.clone();
    change.apply(&mut object);
    let path = format!("{}?dryRun=All", sample.collection());
    let (ours, theirs) = tokio::join!(pair.ours.post(&path, &object), pair.theirs.post(&path, &object));
    Ok(Trial { deed, change, ours: Verdict::of(ours)?, theirs: Verdict::of(theirs)? })
}

/// An object as each server has stored it.
struct Stored {
    path: String,
    ours: Value,
    theirs: Value,
}

impl Stored {
    /// Where Atoll does not take the object there is nothing to change, which counts as a disagreement each time.
    async fn create(pair: &Pair, sample: &Sample, base: &Value) -> Result<Stored, String> {
        let collection = sample.collection();
        let (ours, theirs) =
            tokio::join!(pair.ours.post(&collection, base), pair.theirs.post(&collection, base));
        let (ours, theirs) = (ours.map_err(told)?, theirs.map_err(told)?);
        if theirs.status != 201 {
            return Err(format!("kube-apiserver does not take it: {}", theirs.text()));
        }
        let path = format!("{collection}/{}", base["metadata"]["name"].as_str().unwrap_or_default());
        let ours = ours.json();
        let ours = if ours["kind"] == base["kind"] { ours } else { Value::Null };
        Ok(Stored { path, ours, theirs: theirs.json() })
    }

    async fn update(&mut self, pair: &Pair, deed: Deed, change: Change) -> Result<Trial, String> {
        let (ours, theirs) = tokio::join!(
            update(&pair.ours, &self.path, &mut self.ours, &change),
            update(&pair.theirs, &self.path, &mut self.theirs, &change)
        );
        Ok(Trial { deed, change, ours: ours?, theirs: theirs? })
    }
}

/// Sends `stored` with the change. The server's own loops may have touched it meanwhile; then it is read again.
async fn update(client: &Client, path: &str, stored: &mut Value, change: &Change) -> Result<Verdict, String> {
    for _ in 0..5 {
        let mut object = stored.clone();
        if !change.apply(&mut object) {
            return Ok(Verdict::Inapplicable);
        }
        let verdict = Verdict::of(client.put(&format!("{path}?dryRun=All"), &object).await)?;
        if !verdict.is_conflict() {
            return Ok(verdict);
        }
        let current = client.get(path).await.map_err(told)?.json();
        if current["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"] {
            return Ok(verdict);
        }
        *stored = current;
    }
    Err(format!("{path} is changed all the time"))
}

fn told(error: Error) -> String {
    error.to_string()
}
