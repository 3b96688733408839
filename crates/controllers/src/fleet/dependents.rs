//! Places dependents: the ConfigMaps, Secrets, ServiceAccounts and volume claims that a placed object refers
//! to or owns get a placement on the same clusters, and lose it when no object there needs them any more. One that
//! its user has placed elsewhere is there, too.

mod custom;
mod owners;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::Placement;
use atoll_fleet::marks::PLACEMENT as PLACEMENT_MARK;
use atoll_fleet::owners::owner_shares;
use atoll_fleet::placed_by::REFERENCE as BY_REFERENCE;
use atoll_fleet::placement::{Share, are_same, next_needed};
use atoll_fleet::references::{NEEDS, RESOURCES, Reference, references};
use atoll_fleet::scheduled::stays_above;
use atoll_informer::{
    Cache, Change, Key, ListWatch, ListWatchEvent, Next, Queue, Resource, list_and_watch, resources,
};
use atoll_meta::object::OwnerReference;
use atoll_meta::{Status, object};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::custom::CustomObjects;
use self::owners::OwnedObjects;
use crate::context::Context;

/// Dependents that are looked at at the same time, in all and of one workspace.
const WORKERS: usize = 16;
const PER_WORKSPACE: usize = 2;
/// Very many objects may refer to a dependent. After looking at them, other work of the workspace waits for this multiple
/// of the time that it took.
const PAUSE_FACTOR: u32 = 4;
/// Delay before a refused placement is retried.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Delay before a removal is looked at again that depends on objects which are not known yet.
const UNKNOWN_DELAY: Duration = Duration::from_secs(1);
/// Delay before a paused placement is retried, because there is no event when the pause ends.
const PAUSED_DELAY: Duration = Duration::from_secs(2);
const PLACEMENT: &str = "placement";
/// The placement subresource as a dry run.
const DRY_RUN: &str = "placement?dryRun=All";

/// Resource of objects that refer to others or own them, and the index of their references. Items of lists do not have
/// a kind, so it is added.
type Referrers = (fn() -> Resource, fn(&Value) -> Vec<String>);

const REFERRERS: [Referrers; 10] = [
    (|| resources::CRON_JOBS.clone(), |object| index_keys("CronJob", object)),
    (|| resources::DAEMON_SETS.clone(), |object| index_keys("DaemonSet", object)),
    (|| resources::DEPLOYMENTS.clone(), |object| index_keys("Deployment", object)),
    (|| resources::JOBS.clone(), |object| index_keys("Job", object)),
    (|| resources::REPLICA_SETS.clone(), |object| index_keys("ReplicaSet", object)),
    (|| resources::REPLICATION_CONTROLLERS.clone(), |object| index_keys("ReplicationController", object)),
    (|| resources::SERVICE_ACCOUNTS.clone(), |object| index_keys("ServiceAccount", object)),
    (|| resources::SERVICES.clone(), |object| index_keys("Service", object)),
    (|| resources::STATEFUL_SETS.clone(), |object| index_keys("StatefulSet", object)),
    (|| resources::INGRESSES.clone(), |object| index_keys("Ingress", object)),
];

/// Returns the index keys of the references of a placed object. They begin with the workspace, so that objects of the
/// same name elsewhere cost nothing.
fn index_keys(kind: &str, object: &Value) -> Vec<String> {
    let found = reference_keys(kind, object);
    if found.is_empty() {
        return found;
    }
    let workspace = Key::of(object).workspace;
    found.iter().map(|reference_key| index_key(&workspace, reference_key)).collect()
}

fn index_key(workspace: &str, reference_key: &str) -> String {
    format!("{workspace}/{reference_key}")
}

/// Returns the references of a placed object: `configmaps/namespace/name`.
fn reference_keys(kind: &str, object: &Value) -> Vec<String> {
    if object::annotation(object, atoll_fleet::marks::PLACEMENT).is_none() {
        return Vec::new();
    }
    let found = match object::kind(object) {
        "" => {
            let mut typed = object.clone();
            object::set_type(&mut typed, "", kind);
            references(&typed)
        }
        _ => references(object),
    };
    let namespace = object::namespace(object);
    found.into_iter().map(|reference| reference_key(reference.resource, namespace, &reference.name)).collect()
}

fn reference_key(resource: &str, namespace: &str, name: &str) -> String {
    format!("{resource}/{namespace}/{name}")
}

/// Whether dependents do not depend on a change. Most changes are those of a status.
fn is_irrelevant(kind: &str, change: &Change) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
    let annotations = |object: &Value| {
        [PLACEMENT_MARK, NEEDS].map(|name| object::annotation(object, name).map(str::to_string))
    };
    if object::is_being_deleted(old) != object::is_being_deleted(new) || annotations(old) != annotations(new)
    {
        return false;
    }
    let names =
        [old, new].into_iter().filter_map(|object| object.as_object()).flat_map(|fields| fields.keys());
    let mut others =
        names.filter(|name| !matches!(name.as_str(), "metadata" | "status" | "apiVersion" | "kind"));
    others.all(|name| old[name] == new[name]) || reference_keys(kind, old) == reference_keys(kind, new)
}

/// Adds what an object refers to, or has referred to.
fn enqueue_references(kind: &str, change: &Change, queue: &Queue) {
    if is_irrelevant(kind, change) {
        return;
    }
    for object in [&change.old, &change.new].into_iter().flatten() {
        for reference_key in reference_keys(kind, object) {
            queue.add(queue_key(&change.key.workspace, &reference_key));
        }
    }
}

pub async fn run(context: Context) {
    let queue = Queue::new();
    let owned = Arc::new(OwnedObjects::new(&context, &queue));
    let referrers: Vec<(Arc<Cache>, usize)> = REFERRERS
        .iter()
        .map(|(resource, index_keys)| {
            let cache = context.informers.of(&resource());
            let index = cache.index(*index_keys);
            let (queue, owned, kind) = (queue.clone(), owned.clone(), cache.resource.kind.clone());
            cache.listen(move |change| {
                enqueue_references(&kind, change, &queue);
                owned.owner_changed(change, &queue);
            });
            (cache, index)
        })
        .collect();
    for (cache, _) in &referrers {
        cache.synced().await;
    }
    let controller =
        Arc::new(Controller { context: context.clone(), referrers, custom: CustomObjects::default() });
    let mut watches = tokio::task::JoinSet::new();
    for resource in RESOURCES {
        watches.spawn(enqueue_created_dependents(
            context.clone(),
            resource,
            controller.clone(),
            queue.clone(),
        ));
    }
    let worker = controller.clone();
    let working = queue.work_with_share("dependents", WORKERS, PER_WORKSPACE, move |key| {
        let controller = worker.clone();
        async move { controller.sync(&key).await }
    });
    tokio::join!(working, controller.custom.run(&context, &queue, &owned));
}

/// Returns the queue key of a reference, which contains the namespace.
fn queue_key(workspace: &str, reference_key: &str) -> Key {
    Key::new(workspace, "", reference_key)
}

/// Enqueues dependents that are created after the objects that refer to them. Watches only metadata, and
/// caches nothing.
async fn enqueue_created_dependents(
    context: Context,
    resource: &'static str,
    controller: Arc<Controller>,
    queue: Queue,
) {
    let Some(resource) = dependent_resource(resource) else { return };
    list_and_watch(context.api(), ListWatch::all(resource).metadata_only(), |event| {
        if let ListWatchEvent::Upserted(object) = event {
            let at = Key::of(&object);
            let reference_key = reference_key(&resource.plural, &at.namespace, &at.name);
            let is_placed = object::annotation(&object, atoll_fleet::marks::PLACEMENT).is_some();
            if is_placed || !controller.referrers_of(&at.workspace, &reference_key).is_empty() {
                queue.add(queue_key(&at.workspace, &reference_key));
            }
        }
    })
    .await;
}

fn dependent_resource(plural: &str) -> Option<&'static Resource> {
    let known = [
        &resources::CONFIG_MAPS,
        &resources::PERSISTENT_VOLUME_CLAIMS,
        &resources::SECRETS,
        &resources::SERVICE_ACCOUNTS,
    ];
    known.into_iter().find(|resource| resource.plural == plural)
}

struct Controller {
    context: Context,
    referrers: Vec<(Arc<Cache>, usize)>,
    custom: CustomObjects,
}

impl Controller {
    fn referrers_of(&self, workspace: &str, reference_key: &str) -> Vec<Arc<Value>> {
        let (index_key, custom) =
            (index_key(workspace, reference_key), self.custom.of(self.context.api(), workspace));
        let caches = self.referrers.iter().chain(&custom);
        caches.flat_map(|(cache, index)| cache.by_index(*index, &index_key)).collect()
    }

    /// Finds an owner of an object in the caches.
    fn owner(&self, at: &Key, owner: &OwnerReference<'_>) -> Option<Arc<Value>> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let mut built_in = self.referrers.iter().map(|(cache, _)| cache);
        let is_it = |cache: &&Arc<Cache>| cache.resource.group == group && cache.resource.kind == owner.kind;
        match built_in.find(is_it) {
            Some(cache) => cache.get(&at.sibling(owner.name)),
            None => self.custom.get(self.context.api(), (group, owner.kind), &at.sibling(owner.name)),
        }
    }

    /// Lists all objects of a namespace that may need dependents.
    async fn list_referrers(&self, workspace: &str, namespace: &str) -> Result<Vec<Referrer>, Status> {
        let mut all = Vec::new();
        for (resource, _) in &REFERRERS {
            let resource = resource();
            let add = |page: Vec<Value>| {
                all.extend(page.into_iter().map(|mut found| {
                    object::set_type(&mut found, &resource.api_version(), &resource.kind);
                    Referrer::of(&found)
                }));
            };
            self.context.api().list_large(&resource, workspace, namespace, add).await?;
        }
        let missing = self.custom.list_missing(&self.context, workspace, namespace).await?;
        all.extend(missing.iter().map(Referrer::of));
        all.extend(
            self.custom
                .list(self.context.api(), workspace, namespace)
                .iter()
                .map(|found| Referrer::of(found)),
        );
        Ok(all)
    }

    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let mut parts = key.name.splitn(3, '/');
        let (Some(plural), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return Ok(Next::Done);
        };
        let Some(resource) = dependent_resource(plural) else { return Ok(Next::Done) };
        let target = Key::new(&key.workspace, namespace, name);
        let found = match self.context.api().get_metadata(resource, &target).await {
            Err(status) if status.reason() == "NotFound" => return Ok(Next::Done),
            found => found?,
        };
        let current = Placement::of(&found);
        let begun = Instant::now();
        let changed = {
            let referrers = self.referrers_of(&key.workspace, &key.name);
            let owners = owner_shares(&found, &|owner| self.owner(&target, owner));
            changed_shares(&current, &found, &referrers, owners)
        };
        tokio::time::sleep(begun.elapsed() * PAUSE_FACTOR).await;
        let Some((mut shares, by)) = changed else { return Ok(Next::Done) };
        // A removed object may be lost, and the caches may be at different revisions: list the referring
        // objects again.
        if current.clusters.iter().any(|share| !contains(&shares, share)) && !stays_above(&found) {
            if !self.custom.is_listed() {
                return Ok(Next::After(UNKNOWN_DELAY));
            }
            let referrers = self.list_referrers(&key.workspace, namespace).await?;
            let mut needed = needed_clusters(&key.name, &referrers);
            let referrers: HashMap<&str, &Value> =
                referrers.iter().map(|one| (object::uid(&one.object), &one.object)).collect();
            let find = |owner: &OwnerReference<'_>| Some(Arc::new((*referrers.get(owner.uid)?).clone()));
            add_shares(&mut needed, owner_shares(&found, &find));
            match next_needed(&current, needed.into_values().collect()) {
                Some((next, _)) if !are_same(&current.clusters, &next) => shares = next,
                _ => return Ok(Next::Done),
            }
        }
        match self.place(resource, &target, &found, (&shares, by), PLACEMENT).await {
            // The object was changed by another writer.
            Err(status) if matches!(status.code(), 404 | 409) => Ok(Next::Again),
            // A cluster accepts no new objects, or does not exist any more. The other clusters still get the
            // object.
            Err(status) if status.code() == 422 => {
                let new = shares.iter().filter(|share| !contains(&current.clusters, share));
                let accepted = self.accepted(resource, &target, &found, (&current, by), new).await;
                if accepted.len() == current.clusters.len() {
                    return Ok(Next::After(RETRY_DELAY));
                }
                match self.place(resource, &target, &found, (&accepted, by), PLACEMENT).await {
                    Err(status) if !matches!(status.code(), 404 | 409 | 422) => Err(status),
                    _ => Ok(Next::After(RETRY_DELAY)),
                }
            }
            Err(status) if status.has_cause(atoll_fleet::pause::CAUSE) => Ok(Next::After(PAUSED_DELAY)),
            placed => placed.map(|_| Next::Done),
        }
    }

    /// Places a dependent on clusters; `subresource` is [`PLACEMENT`] or [`DRY_RUN`].
    async fn place(
        &self,
        resource: &Resource,
        target: &Key,
        found: &Value,
        (clusters, by): (&[Share], &str),
        subresource: &str,
    ) -> Result<Value, Status> {
        let patch = json!({
            "metadata": { "uid": object::uid(found), "resourceVersion": object::resource_version(found) },
            "spec": { "clusters": clusters, "by": by },
        });
        self.context.api().patch(resource, target, subresource, &patch).await
    }

    /// Returns the clusters that have a dependent, and those of `new` that would accept it.
    async fn accepted<'a>(
        &self,
        resource: &Resource,
        target: &Key,
        found: &Value,
        (current, by): (&Placement, &str),
        new: impl Iterator<Item = &'a Share>,
    ) -> Vec<Share> {
        let mut accepted = current.clusters.clone();
        for share in new {
            accepted.push(share.clone());
            if self.place(resource, target, found, (&accepted, by), DRY_RUN).await.is_err() {
                accepted.pop();
            }
        }
        accepted
    }
}

/// An object that was listed because it may refer to others: its metadata and references. The rest may be large.
struct Referrer {
    object: Value,
    /// The keys of what it refers to.
    references: Vec<String>,
}

impl Referrer {
    fn of(object: &Value) -> Referrer {
        let namespace = object::namespace(object);
        let key = |reference: Reference| reference_key(reference.resource, namespace, &reference.name);
        let references = references(object).into_iter().map(key).collect();
        let mut small = json!({ "metadata": {} });
        object::set_type(&mut small, object::api_version(object), object::kind(object));
        for field in ["name", "namespace", "uid", "deletionTimestamp", "ownerReferences"] {
            if let Some(value) = object["metadata"].get(field) {
                small["metadata"][field] = value.clone();
            }
        }
        if let Some(placement) = object::annotation(object, PLACEMENT_MARK) {
            object::set_annotation(&mut small, PLACEMENT_MARK, placement);
        }
        Referrer { object: small, references }
    }
}

/// Shares by cluster name. Of two clusters with the same name, the one of the first referring object is used.
type Clusters = BTreeMap<String, Share>;

fn contains(shares: &[Share], share: &Share) -> bool {
    shares.iter().any(|other| other.is_of(&share.name, &share.uid))
}

/// Returns the shares that a dependent should have, and the `by` of its placement, if they differ from the present
/// ones. What its user has decided stays.
fn changed_shares<'a>(
    current: &'a Placement,
    dependent: &Value,
    referrers: &[Arc<Value>],
    owners: Vec<Share>,
) -> Option<(Vec<Share>, &'a str)> {
    let staying = referrers.iter().filter(|referrer| !object::is_being_deleted(referrer));
    let mut all = Clusters::new();
    if !stays_above(dependent) {
        staying.for_each(|referrer| add_shares(&mut all, clusters(referrer)));
        add_shares(&mut all, owners);
    }
    let (shares, by) = next_needed(current, all.into_values().collect())?;
    (!are_same(&current.clusters, &shares) && !object::is_being_deleted(dependent)).then_some((shares, by))
}

fn clusters(object: &Value) -> impl Iterator<Item = Share> {
    Placement::of(object).clusters.into_iter().map(|share| Share::on(&share.name, &share.uid))
}

fn add_shares(all: &mut Clusters, more: impl IntoIterator<Item = Share>) {
    for share in more {
        let known = all.entry(share.name.clone()).or_insert_with(|| share.clone());
        if known.uid.is_empty() {
            *known = share;
        }
    }
}

/// Returns the clusters that need a dependent: those of the objects that refer to it. If such an object is a
/// dependent itself, the clusters of the objects that refer to it count, whether or not it was already placed
/// there.
fn needed_clusters(reference_key: &str, referrers: &[Referrer]) -> Clusters {
    let namespace = referrers.first().map(|one| object::namespace(&one.object)).unwrap_or_default();
    let refers = |one: &&Referrer| {
        !object::is_being_deleted(&one.object) && one.references.iter().any(|own| own == reference_key)
    };
    let mut all = Clusters::new();
    for referrer in referrers.iter().filter(refers).map(|one| &one.object) {
        let placement = Placement::of(referrer);
        let is_dependent = placement.clusters.is_empty() || placement.by == BY_REFERENCE;
        match is_dependent && object::kind(referrer) == "ServiceAccount" {
            // The recursion ends, because Secrets refer to nothing.
            true => {
                let reference_key = self::reference_key("serviceaccounts", namespace, object::name(referrer));
                add_shares(&mut all, needed_clusters(&reference_key, referrers).into_values());
            }
            false => add_shares(&mut all, clusters(referrer)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(placement: &str) -> Value {
        json!({ "metadata": { "annotations": { "atoll.dev/placement": placement } } })
    }

    fn changed(dependent: &Value, referrers: &[Arc<Value>]) -> Option<Clusters> {
        let current = Placement::of(dependent);
        let (shares, _) = changed_shares(&current, dependent, referrers, Vec::new())?;
        Some(shares.into_iter().map(|share| (share.name.clone(), share)).collect())
    }

    #[test]
    fn dependents_are_placed_with_their_referrers() {
        let on = |names: &[&str], by: &str| {
            let clusters: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
            placed(&json!({ "clusters": clusters, "by": by }).to_string())
        };
        let above = || json!({ "metadata": { "annotations": { "atoll.dev/clusters": "none" } } });
        let names = |names: &[&str]| Some(names.iter().map(|name| name.to_string()).collect::<Vec<_>>());
        for (dependent, referrers, expected) in [
            (json!({}), vec![], None),
            (json!({}), vec![on(&["a"], "hand"), on(&["b", "a"], "hand")], names(&["a", "b"])),
            (on(&["a"], "reference"), vec![on(&["a"], "hand")], None),
            (on(&["a"], "reference"), vec![], names(&[])),
            // It is where its user has put it, too.
            (on(&["a"], "hand"), vec![on(&["b"], "hand")], names(&["a", "b"])),
            (on(&["a"], "annotation"), vec![on(&["b"], "hand")], names(&["a", "b"])),
            (on(&["a"], "release"), vec![on(&["b"], "hand")], None),
            (above(), vec![on(&["b"], "hand")], None),
            (placed(r#"{"leaving":["a"]}"#), vec![on(&["b"], "hand")], names(&["b"])),
        ] {
            let referrers: Vec<Arc<Value>> = referrers.into_iter().map(Arc::new).collect();
            let found = changed(&dependent, &referrers).map(|found| found.into_keys().collect());
            assert_eq!(found, expected, "{dependent} {referrers:?}");
        }
        // Clusters with the same name and different uids are distinct.
        let of = |uid: &str| {
            placed(&json!({ "clusters": [{ "name": "a", "uid": uid }], "by": BY_REFERENCE }).to_string())
        };
        let found = changed(&of("1"), &[Arc::new(of("2"))]).expect("the dependent moves");
        assert_eq!(found["a"].uid, "2");
        for (dependent, referrer) in [(of("1"), of("1")), (of(""), of("1")), (of("1"), of(""))] {
            assert_eq!(changed(&dependent, &[Arc::new(referrer)]), None);
        }
    }

    #[test]
    fn a_dependent_is_removed_only_where_it_is_not_needed() {
        let on = |kind: &str, name: &str, spec: Value, placement: Value| {
            let annotations = match placement.is_null() {
                true => json!({}),
                false => json!({ "atoll.dev/placement": placement.to_string() }),
            };
            let mut object = json!({ "kind": kind, "metadata": { "name": name, "namespace": "n", "annotations": annotations } });
            match kind {
                "ServiceAccount" => object["imagePullSecrets"] = spec,
                _ => object["spec"]["template"]["spec"] = spec,
            }
            object
        };
        let east = json!({ "clusters": [{ "name": "east" }], "by": "hand" });
        let west = json!({ "clusters": [{ "name": "west" }], "by": "hand" });
        let (pulls, robot) = (json!([{ "name": "s" }]), json!({ "serviceAccountName": "robot" }));
        let web = on("Deployment", "web", robot, east.clone());
        let mut deleted = web.clone();
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        for (referrers, expected) in [
            (vec![], vec![]),
            (vec![on("Deployment", "a", json!({ "imagePullSecrets": pulls }), east.clone())], vec!["east"]),
            // A service account that is not placed yet will be.
            (vec![web.clone(), on("ServiceAccount", "robot", pulls.clone(), Value::Null)], vec!["east"]),
            (vec![deleted, on("ServiceAccount", "robot", pulls.clone(), Value::Null)], vec![]),
            // A service account that was placed by hand is not a dependent.
            (vec![web, on("ServiceAccount", "robot", pulls, west)], vec!["west"]),
        ] {
            let listed: Vec<Referrer> = referrers.iter().map(Referrer::of).collect();
            let found = needed_clusters("secrets/n/s", &listed);
            assert_eq!(found.keys().collect::<Vec<_>>(), expected, "{referrers:?}");
        }
    }

    #[test]
    fn changes_of_placements_and_references_matter() {
        let object = |placement: &str, label: &str, secret: &str| {
            let spec = json!({ "imagePullSecrets": [{ "name": secret }], "nodeName": label });
            Arc::new(json!({
                "metadata": {
                    "namespace": "n", "name": "web", "labels": { "a": label },
                    "annotations": { "atoll.dev/placement": placement },
                },
                "spec": { "template": { "spec": spec } },
                "status": { "a": label },
            }))
        };
        let matters = |old: &Arc<Value>, new: Option<&Arc<Value>>| {
            let change = Change { key: Key::of(old), old: Some(old.clone()), new: new.cloned() };
            !is_irrelevant("Deployment", &change)
        };
        let known = object("{}", "a", "s");
        for (new, expected) in [
            (known.clone(), false),
            (object("{}", "b", "s"), false),
            (object("{}", "a", "t"), true),
            (object("{\"by\":\"hand\"}", "a", "s"), true),
        ] {
            assert_eq!(matters(&known, Some(&new)), expected, "{new}");
        }
        assert!(matters(&known, None));
        let account = |rest: Value| {
            let mut account = json!({ "metadata": { "annotations": { "atoll.dev/placement": "{}" } } });
            account["imagePullSecrets"] = rest;
            Arc::new(account)
        };
        let (with, mut without) = (account(json!([{ "name": "s" }])), (*account(Value::Null)).clone());
        without.as_object_mut().unwrap().remove("imagePullSecrets");
        let change = Change { key: Key::of(&with), old: Some(with), new: Some(Arc::new(without)) };
        assert!(!is_irrelevant("ServiceAccount", &change), "a field is gone");
    }

    #[test]
    fn only_placed_objects_have_dependents() {
        let mut deployment = json!({
            "metadata": { "namespace": "n", "name": "web" },
            "spec": { "template": { "spec": { "volumes": [{ "configMap": { "name": "c" } }] } } },
        });
        assert_eq!(reference_keys("Deployment", &deployment), Vec::<String>::new());
        deployment["metadata"]["annotations"] = json!({ "atoll.dev/placement": "{}" });
        assert_eq!(reference_keys("Deployment", &deployment), ["configmaps/n/c"]);
        let ingress = json!({
            "metadata": { "namespace": "n", "annotations": { "atoll.dev/placement": "{}" } },
            "spec": { "tls": [{ "secretName": "s" }] },
        });
        assert_eq!(reference_keys("Ingress", &ingress), ["secrets/n/s"]);
    }
}
