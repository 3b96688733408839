//! One status above from the records of all clusters that have an object.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_fleet::sum::{following, sum};
use atoll_fleet::view::Record;
use atoll_informer::{Cache, DeleteOptions, Key, Next, Queue, Recorder, Resource, resources};
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::context::Context;

const AT_ONCE: usize = 16;

/// The uid of the object that a record is about.
fn by_uid(record: &Value) -> Vec<String> {
    record["spec"]["uid"].as_str().map(str::to_string).into_iter().collect()
}

pub async fn run(context: Context) {
    let records = context.informers.of(&resources::OBJECT_STATUSES);
    let index = records.index(by_uid);
    let queue = Queue::new();
    let waking = queue.clone();
    records.listen(move |change| {
        // However many clusters have an object, its status is written once.
        for uid in by_uid(change.object()) {
            waking.add(Key::new(&change.key.workspace, &change.key.namespace, &uid));
        }
    });
    records.synced().await;
    let recorder = context.events.recorder("atoll-fleet");
    let controller = Arc::new(Controller { context, recorder, noted: Mutex::default(), records, index });
    queue
        .work("statuses of placed objects", AT_ONCE, move |key| {
            let controller = controller.clone();
            async move { controller.sync(&key).await }
        })
        .await;
}

struct Controller {
    context: Context,
    recorder: Recorder,
    /// What was said of which object and cluster.
    noted: Mutex<HashMap<(String, String), String>>,
    records: Arc<Cache>,
    index: usize,
}

impl Controller {
    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let records = self.records.found(self.index, &key.name);
        let Some((mut resource, at)) = records.first().and_then(|record| target(record, key)) else {
            return Ok(Next::Done);
        };
        let world = self.context.world();
        let found = match world.get(&resource, &at).await {
            Ok(found) if object::uid(&found) == &*key.name => found,
            Err(status) if status.reason() != "NotFound" => return Err(status),
            // What they are about is gone, or another one of that name is there.
            _ => return self.forget(&records).await,
        };
        // Records do not say it, and servers insist on it for custom resources.
        resource.kind = object::kind(&found).to_string().into();
        let told: Vec<(String, Record)> = records.iter().filter_map(|record| told(record)).collect();
        self.tell_drift(&resource, &found, &told);
        let kind = (&*resource.group, &*resource.plural);
        let wanted = sum(kind, object::generation(&found), &told)
            .map(|wanted| following(kind, &found["status"], wanted));
        let Some(wanted) = wanted.filter(|wanted| found["status"] != *wanted) else { return Ok(Next::Done) };
        let mut changed = found;
        changed["status"] = wanted;
        match world.update_status(&resource, &changed).await {
            Err(status) if status.reason() == "Conflict" => Ok(Next::Again),
            // Kinds without a status have none below, either.
            Err(status) if matches!(status.reason(), "NotFound" | "MethodNotAllowed") => Ok(Next::Done),
            written => written.map(|_| Next::Done),
        }
    }

    /// Says once what others have changed in clusters, where that is left as it is.
    fn tell_drift(&self, resource: &Resource, found: &Value, told: &[(String, Record)]) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        for (cluster, record) in told {
            let key = (object::uid(found).to_string(), cluster.clone());
            let Some(what) = record.drift() else {
                noted.remove(&key);
                continue;
            };
            if noted.get(&key).is_some_and(|before| before == what) {
                continue;
            }
            let resource = Resource { kind: object::kind(found).to_string().into(), ..resource.clone() };
            self.recorder.warning(&resource, found, "Drift", format!("in cluster {cluster}, {what}"));
            noted.insert(key, what.to_string());
        }
    }

    async fn forget(&self, records: &[Arc<Value>]) -> Result<Next, Status> {
        if let Some(uid) = records.first().and_then(|record| record["spec"]["uid"].as_str()) {
            let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
            noted.retain(|(about, _), _| about != uid);
        }
        for record in records {
            let (key, uid) = (Key::of(record), object::uid(record));
            let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
            match self.context.world().delete(&self.records.resource, &key, options).await {
                Err(status) if !matches!(status.reason(), "NotFound" | "Conflict") => return Err(status),
                _ => {}
            }
        }
        Ok(Next::Done)
    }
}

/// What a record is about.
fn target(record: &Value, key: &Key) -> Option<(Resource, Key)> {
    let spec = &record["spec"];
    let text = |value: &Value| value.as_str().map(str::to_string);
    let namespace = spec["namespace"].as_str().unwrap_or_default();
    let resource = Resource {
        group: text(&spec["resource"]["group"])?.into(),
        version: text(&spec["resource"]["version"])?.into(),
        plural: text(&spec["resource"]["resource"])?.into(),
        kind: "".into(),
        namespaced: !namespace.is_empty(),
    };
    Some((resource, Key::new(&key.workspace, namespace, spec["name"].as_str()?)))
}

/// What a record says, and of which cluster.
fn told(record: &Value) -> Option<(String, Record)> {
    let cluster = record["spec"]["cluster"].as_str()?.to_string();
    let status = &record["status"];
    let said = Record {
        generation: status["generation"].as_i64().unwrap_or(0),
        state: serde_json::from_value(status["state"].clone()).ok()?,
        message: status["message"].as_str().unwrap_or_default().to_string(),
        observed: status["observed"].as_bool().unwrap_or(false),
        status: status["status"].clone(),
        ..Record::default()
    };
    Some((cluster, said))
}
