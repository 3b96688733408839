//! Property tests with random objects. The seeds are fixed; `ATOLL_SEED=7` uses another one.

use atoll_fleet::view::{Record, State};
use atoll_fleet::{Overrides, aggregate, references, shape};
use serde_json::{Map, Value, json};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below the limit")
    }

    fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

fn seeds() -> Vec<u64> {
    match std::env::var("ATOLL_SEED") {
        Ok(text) => vec![text.parse().expect("ATOLL_SEED is a number")],
        Err(_) => (0..2000).collect(),
    }
}

/// Field names with and without a special meaning.
const NAMES: &[&str] = &[
    "spec",
    "template",
    "metadata",
    "labels",
    "annotations",
    "selector",
    "manualSelector",
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ports",
    "nodePort",
    "volumeName",
    "secrets",
    "status",
    "name",
    "namespace",
    "replicas",
    "parallelism",
    "data",
    "controller-uid",
    "job-name",
    "atoll.dev/uid",
    "deployment.kubernetes.io/revision",
    "containers",
    "image",
    "volumes",
    "env",
    "claimRef",
    "uid",
    "volumeClaimTemplates",
    "finalizers",
    "conditions",
    "type",
    "x",
];
const KINDS: &[(&str, &str)] = &[
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("v1", "Service"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "PersistentVolume"),
    ("v1", "ServiceAccount"),
    ("v1", "Secret"),
    ("v1", "Namespace"),
    ("v1", "Pod"),
    ("example.com/v1", "Thing"),
    ("nonsense/v1/v2", "Thing"),
];

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 9 }) {
        0 => json!(null),
        1 => json!(random.chance(70)),
        2 => json!(random.below(5)),
        3 => json!(random.pick(&["", "None", "True", "nginx:1", "ghcr.io/a/b@sha256:c"])),
        4 => json!("text"),
        5 | 6 => Value::Array((0..random.below(4)).map(|_| value(random, depth - 1)).collect()),
        _ => fields(random, depth - 1),
    }
}

fn fields(random: &mut Random, depth: usize) -> Value {
    let count = random.below(7);
    Value::Object((0..count).map(|_| (random.pick(NAMES).to_owned(), value(random, depth))).collect())
}

/// Returns managed fields for some of a value's fields, and for some that do not exist.
fn managed(random: &mut Random, value: &Value) -> Value {
    let mut out = Map::new();
    if random.chance(30) {
        out.insert(".".to_owned(), json!({}));
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|_| random.chance(60)).collect::<Vec<_>>() {
                out.insert(format!("f:{name}"), managed(random, value));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let step = match item {
                    Value::Object(fields) if !fields.is_empty() => {
                        let (name, value) = fields.iter().next().expect("it is not empty");
                        format!("k:{}", json!({ name: value }))
                    }
                    item if random.chance(70) => format!("v:{item}"),
                    _ => format!("i:{index}"),
                };
                if random.chance(60) {
                    out.insert(step, managed(random, item));
                }
            }
        }
        _ => {}
    }
    if random.chance(10) {
        out.insert(random.pick(&["f:gone", "v:3", "k:{\"a\":1}", "?:x", "broken"]).to_owned(), json!({}));
    }
    Value::Object(out)
}

/// A specification with fields that have a special meaning for some kind.
fn specification(random: &mut Random) -> Value {
    let mut spec = json!({
        "manualSelector": random.chance(50), "selector": { "matchLabels": { "job-name": "a" } }, "replicas": 7,
        "clusterIP": random.pick(&["None", "10.0.0.1"]), "clusterIPs": [random.pick(&["None", "10.0.0.1"])],
        "ipFamilies": ["IPv4"], "volumeName": "v", "finalizers": ["a"], "ports": [{ "port": 1, "nodePort": 2 }],
        "claimRef": { "uid": "u", "name": "n" }, "storageClassName": "text",
        "volumeClaimTemplates": [{ "spec": { "storageClassName": "text" }, "status": {} }],
        "template": {
            "metadata": { "labels": { "job-name": "a" } },
            "spec": { "containers": [{ "name": "c", "image": "nginx", "env": [{ "name": "A" }] }], "x": value(random, 2) },
        },
    });
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, _| random.chance(70));
    }
    spec
}

fn object(random: &mut Random) -> Value {
    let mut object = fields(random, 5);
    if random.chance(70) {
        object["spec"] = specification(random);
    }
    let (version, kind) = KINDS[random.below(KINDS.len())];
    object["apiVersion"] = json!(version);
    object["kind"] = json!(kind);
    let entries: Vec<Value> = (0..random.below(4))
        .map(|index| {
            json!({
                "manager": format!("m{index}"), "operation": "Update", "fieldsType": "FieldsV1",
                "apiVersion": if random.chance(90) { version } else { "other/v1" },
                "subresource": random.pick(&["", "", "scale", "status"]), "fieldsV1": managed(random, &object),
            })
        })
        .collect();
    let mut metadata = match fields(random, 2) {
        Value::Object(metadata) if random.chance(90) => metadata,
        _ => Map::new(),
    };
    metadata.insert("managedFields".to_owned(), entries.into());
    object["metadata"] = metadata.into();
    object
}

/// Whether everything in `part` is in `whole`, in the same place or, in lists, in the same order.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|whole| is_part(value, whole)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            let mut rest = whole.iter();
            part.iter().all(|item| rest.any(|whole| is_part(item, whole)))
        }
        (part, whole) => part == whole,
    }
}

#[test]
fn shapes_are_idempotent() {
    for seed in seeds() {
        let random = &mut Random(seed);
        let object = object(random);
        for share in [None, Some(3)] {
            let once = shape(&object, "east", share);
            assert_eq!(shape(&once, "east", share), once, "seed {seed}: {object}");
            assert_eq!(once.get("status"), None, "seed {seed}");
            let metadata = once["metadata"].as_object().expect("metadata exists");
            let known = ["name", "namespace", "labels", "annotations"];
            assert!(metadata.keys().all(|name| known.contains(&name.as_str())), "seed {seed}");
            assert!(share.is_some() || is_part(&once, &object), "seed {seed}: {once} of {object}");
            let keys =
                |name: &str| once["metadata"][name].as_object().into_iter().flatten().map(|(key, _)| key);
            let mut keys = keys("labels").chain(keys("annotations"));
            assert!(!keys.any(|key| key.starts_with("atoll.dev/")), "seed {seed}");
        }
        let found = references(&object);
        assert!(found.is_sorted() && found.windows(2).all(|pair| pair[0] != pair[1]), "seed {seed}");
    }
}

#[test]
fn overrides_are_idempotent() {
    let overrides = Overrides::read(&json!([
        { "registry": { "to": "mirror.local/hub" }, "storageClass": { "text": "fast" } },
        { "env": [{ "name": "A", "value": "b" }], "labels": { "a": "b" }, "annotations": { "c": "d" } },
    ]))
    .expect("they are well-formed");
    for seed in seeds() {
        let mut once = object(&mut Random(seed));
        overrides.apply(&mut once).expect("there is no patch");
        let mut twice = once.clone();
        overrides.apply(&mut twice).expect("there is no patch");
        assert_eq!(twice, once, "seed {seed}");
    }
}

#[test]
fn aggregates_do_not_depend_on_order_or_gone_clusters() {
    const RESOURCES: &[(&str, &str)] = &[
        ("apps", "deployments"),
        ("apps", "statefulsets"),
        ("batch", "jobs"),
        ("", "services"),
        ("", "persistentvolumeclaims"),
        ("policy", "poddisruptionbudgets"),
        ("example.com", "things"),
    ];
    for seed in seeds() {
        let random = &mut Random(seed);
        let mut records: Vec<(String, Record)> = (0..random.below(5))
            .map(|index| {
                let state = [State::Applied, State::Applied, State::Refused, State::Gone][random.below(4)];
                let mut status = if random.chance(80) { fields(random, 3) } else { Value::Null };
                if status.is_object() && random.chance(70) {
                    let conditions = (0..random.below(3)).map(|_| {
                        json!({
                            "type": random.pick(&["Available", "Progressing", "Failed", "Complete", "Ready"]),
                            "status": random.pick(&["True", "False", "Unknown"]), "observedGeneration": random.below(9),
                        })
                    });
                    status["conditions"] = conditions.collect::<Vec<_>>().into();
                    status["observedGeneration"] = json!(random.below(9));
                }
                let generation = i64::try_from(random.below(6)).expect("it is small");
                let record = Record { generation, observed: random.chance(70), state, status, ..Record::default() };
                (format!("c{index}"), record)
            })
            .collect();
        let resource = RESOURCES[random.below(RESOURCES.len())];
        let whole = aggregate(resource, 4, &records);
        records.reverse();
        assert_eq!(aggregate(resource, 4, &records), whole, "seed {seed}");
        records.retain(|(_, record)| record.state != State::Gone);
        assert_eq!(aggregate(resource, 4, &records), whole, "seed {seed}");
        assert_eq!(whole.is_none(), records.iter().all(|(_, record)| record.status.is_null()), "seed {seed}");
        let seen = whole.as_ref().and_then(|whole| whole["observedGeneration"].as_i64()).unwrap_or(0);
        assert!(seen <= 4, "seed {seed}: {seen}");
    }
}
