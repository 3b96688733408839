//! Judges the ApiImports of a definition.
//!
//! A definition of a cluster may take a hundred MB of memory once it is read. Those of all clusters are therefore only
//! told apart by their text, and the different ones are read one at a time.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use atoll_meta::{Status, object};
use atoll_negotiation::{AllUsed, ImportedDefinition, Objects, TimeLimit, Usage, Verdict, negotiate_loaded};
use atoll_watch::Object;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::super::{OFFERED, definition_of};
use crate::definitions::conditions;
use crate::modify::set_condition;
use crate::parse;

/// Maximum number of different definitions that are compared.
pub(super) const MOST_DISTINCT: usize = 16;
/// Maximum time of the comparison with one cluster. A definition that takes longer is incompatible.
const LONGEST_COMPARISON: Duration = Duration::from_secs(5);
/// Longest message of a condition.
const LONGEST_MESSAGE: usize = 2_000;

const COMPATIBLE: &str = "Compatible";
const DEFINITION: &str = "definition";

/// Equal for equal texts.
pub(super) type Digest = [u64; 2];

/// Random keys in every process, so that equal digests of different texts cannot be constructed.
static HASHES: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);

pub(super) fn digest(text: &[u8]) -> Digest {
    [HASHES[0].hash_one(text), HASHES[1].hash_one(text)]
}

/// An ApiImport, whose definitions are read when they are needed.
pub(super) struct Import {
    /// The ApiImport without the definition in its spec and the one in its status.
    pub(super) head: Value,
    /// The digests of the definitions in the spec and in the status.
    own: Option<Digest>,
    narrowed: Option<Digest>,
    object: Arc<Object>,
}

impl Import {
    pub(super) fn read(object: Arc<Object>) -> Result<Import, Status> {
        let json = object.json();
        let (head, [own, narrowed]) =
            without_definitions(&json).map_err(|error| Status::internal_error(error.to_string()))?;
        Ok(Import { head, own, narrowed, object })
    }

    /// The whole ApiImport.
    pub(super) fn whole(&self) -> Result<Value, Status> {
        parse(&self.object.json())
    }

    fn definition(&self) -> Option<Value> {
        self.whole().ok().map(|mut import| import["spec"][DEFINITION].take())
    }

    pub(super) fn is_offered(&self) -> bool {
        conditions::is_true(&self.head, OFFERED)
    }

    /// Whether the cluster serves the definition.
    pub(super) fn is_candidate(&self) -> bool {
        self.head["spec"]["served"] == true && self.own.is_some() && !object::is_being_deleted(&self.head)
    }
}

/// Reads an ApiImport without its definitions, which are not more than looked through.
fn without_definitions(json: &[u8]) -> serde_json::Result<(Value, [Option<Digest>; 2])> {
    let mut head = Map::new();
    let mut digests = [None; 2];
    for (name, raw) in serde_json::from_slice::<BTreeMap<String, &RawValue>>(json)? {
        let at = ["spec", "status"].iter().position(|part| *part == name);
        let Some(at) = at.filter(|_| raw.get().starts_with('{')) else {
            head.insert(name, serde_json::from_str(raw.get())?);
            continue;
        };
        let mut fields = Map::new();
        for (field, raw) in serde_json::from_str::<BTreeMap<String, &RawValue>>(raw.get())? {
            if field == DEFINITION && raw.get().starts_with('{') {
                digests[at] = Some(digest(raw.get().as_bytes()));
            } else {
                fields.insert(field, serde_json::from_str(raw.get())?);
            }
        }
        head.insert(name, Value::Object(fields));
    }
    Ok((Value::Object(head), digests))
}

/// Reasons of the conditions of an ApiImport whose definition is of no use in the workspace.
const MISFITS: [&str; 4] = ["Incompatible", "Invalid", "LimitExceeded", "OtherVersion"];
/// The field of the status with the message of such a condition.
const MISFIT_FIELD: &str = "misfit";

/// The result for one ApiImport.
pub(super) struct Judged {
    pub(super) import: Import,
    pub(super) offered: [String; 3],
    pub(super) compatible: [String; 3],
    /// The definition that is offered, if it is not the cluster's own.
    pub(super) definition: Option<Value>,
}

impl Judged {
    /// Whether the status of the ApiImport says this already.
    pub(super) fn is_written(&self, now: &str) -> bool {
        let mut wanted = self.import.head.clone();
        self.apply_conditions(&mut wanted, now);
        let narrowed =
            self.definition.as_ref().map(|definition| digest(&atoll_meta::json::to_vec(definition)));
        wanted == self.import.head && narrowed == self.import.narrowed
    }

    /// Sets the status of the ApiImport.
    pub(super) fn apply(&self, import: &mut Value, now: &str) {
        self.apply_conditions(import, now);
        match (&self.definition, import["status"].as_object_mut()) {
            (Some(definition), _) => import["status"][DEFINITION] = definition.clone(),
            (None, Some(status)) => drop(status.remove(DEFINITION)),
            (None, None) => {}
        }
    }

    fn apply_conditions(&self, import: &mut Value, now: &str) {
        if !import["status"].is_object() {
            import["status"] = json!({});
        }
        for (kind, [status, reason, message]) in [(OFFERED, &self.offered), (COMPATIBLE, &self.compatible)] {
            let condition = json!({ "type": kind, "status": status, "reason": reason, "message": message });
            set_condition(import, condition, now);
        }
        match self.misfit() {
            Some(misfit) => import["status"][MISFIT_FIELD] = misfit.into(),
            None => drop(import["status"].as_object_mut().and_then(|status| status.remove(MISFIT_FIELD))),
        }
    }

    /// Why the definition is of no use in the workspace, although the cluster serves it.
    fn misfit(&self) -> Option<&str> {
        let conditions = [&self.offered, &self.compatible].into_iter();
        let mut misfits =
            conditions.filter(|[status, reason, _]| status == "False" && MISFITS.contains(&&**reason));
        let [_, _, message] = misfits.next()?;
        Some(if message.is_empty() { "it does not fit" } else { message })
    }
}

/// Judges the imports of a definition. The result begins with the one that offers it. `objects` are those that exist,
/// `None` if there are very many.
pub(super) fn judge(imports: Vec<Import>, objects: Option<&[Value]>) -> Vec<Judged> {
    let read = |spec: Value| {
        let definition = Value::Object(Map::from_iter([("spec".to_owned(), spec)]));
        ImportedDefinition::from_definition(&definition).ok()
    };
    let offering = imports.iter().find(|import| import.is_offered());
    let former = offering.and_then(|import| read(definition_of(&import.whole().ok()?)["spec"].take()));
    let (candidates, others): (Vec<Import>, Vec<Import>) =
        imports.into_iter().partition(Import::is_candidate);
    // Clusters with the same definition are judged together.
    let mut distinct: Vec<(Digest, &Import)> = Vec::new();
    for candidate in &candidates {
        let Some(own) = candidate.own else { continue };
        if distinct.len() < MOST_DISTINCT && !distinct.iter().any(|(known, _)| *known == own) {
            distinct.push((own, candidate));
        }
    }
    let load = |index: usize| {
        let (_, import) = distinct.get(index)?;
        read(import.definition()?).map(Cow::Owned)
    };
    let usage: &dyn Usage = match &objects {
        Some(objects) => &Objects(objects),
        None => &AllUsed,
    };
    let began = Instant::now();
    let time = TimeLimit { now: &|| began.elapsed(), limit: LONGEST_COMPARISON };
    let negotiated = negotiate_loaded(former.as_ref(), distinct.len(), &load, usage, &time);
    let mut narrowed = negotiated.offered.map(|offered| offered.to_definition()["spec"].take());
    let first = candidates.first().map(|first| name_of_cluster(first).to_string()).unwrap_or_default();
    if narrowed == candidates.first().and_then(Import::definition) {
        narrowed = None;
    }
    let compatible: Vec<[String; 3]> = candidates
        .iter()
        .map(|import| {
            let at = distinct.iter().position(|(known, _)| Some(*known) == import.own);
            at.map_or_else(too_many, |at| {
                let verdict = negotiated.verdicts.get(at).unwrap_or(&Verdict::NotServed);
                compatible(verdict, name_of_cluster(import))
            })
        })
        .collect();
    let mut judged: Vec<Judged> = Vec::new();
    for (import, compatible) in candidates.into_iter().zip(compatible) {
        let offered = match judged.is_empty() {
            true => ["True", "Offered", ""].map(String::from),
            false => other_cluster(&first),
        };
        // Only the first one has it.
        judged.push(Judged { import, offered, compatible, definition: narrowed.take() });
    }
    judged.extend(others.into_iter().map(|import| {
        let problem = import.head["spec"]["problem"].as_str();
        let why = problem.unwrap_or("the cluster does not serve it any more");
        let compatible = ["False", "NotServed", why].map(shortened);
        Judged { import, offered: other_cluster(&first), compatible, definition: None }
    }));
    judged
}

pub(super) fn name_of_cluster(import: &Import) -> &str {
    import.head["spec"]["cluster"].as_str().unwrap_or_default()
}

fn other_cluster(first: &str) -> [String; 3] {
    ["False".into(), "OtherCluster".into(), format!("the definition of cluster {first} is offered")]
}

fn too_many() -> [String; 3] {
    let message = format!(
        "the clusters of the workspace have more than {MOST_DISTINCT} different definitions of this name; those of the \
         clusters that came first are compared"
    );
    ["False".into(), "Incompatible".into(), message]
}

fn compatible(verdict: &Verdict, cluster: &str) -> [String; 3] {
    let (status, reason, message) = match verdict {
        Verdict::Compatible { remarks, .. } => ("True", "Compatible", remarks.describe(cluster).join("; ")),
        Verdict::Incompatible(fields) => ("False", "Incompatible", fields.describe(cluster).join("; ")),
        Verdict::OtherVersion { versions } => {
            let message = format!("cluster {cluster} serves only other versions: {}", versions.join(", "));
            ("False", "OtherVersion", message)
        }
        Verdict::NotServed => ("False", "NotServed", format!("cluster {cluster} does not serve it")),
    };
    [status, reason, &message].map(shortened)
}

pub(super) fn shortened(text: &str) -> String {
    atoll_meta::text::clean(text, LONGEST_MESSAGE)
}
