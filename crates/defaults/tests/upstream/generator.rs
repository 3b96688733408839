//! Random objects of a type, with values on which defaults depend.

use atoll_schema::{TypeId, TypeRef, Types};
use atoll_upstream::SeededRandom;
use serde_json::{Map, Value, json};

pub struct Generator {
    random: SeededRandom,
}

/// Values for fields of these names, besides the usual ones.
const PREFERRED_VALUES: &[(&str, &[&str])] = &[
    (
        "type",
        &[
            "ClusterIP",
            "NodePort",
            "LoadBalancer",
            "ExternalName",
            "RollingUpdate",
            "OnDelete",
            "Container",
            "Pod",
            "Resource",
        ],
    ),
    ("image", IMAGES),
    ("reference", IMAGES),
    ("sessionAffinity", &["None", "ClientIP"]),
    ("restartPolicy", &["Always", "Never"]),
    ("kind", &["User", "Group", "ServiceAccount", "Foo"]),
    ("apiGroup", &["", "rbac.authorization.k8s.io", "apps"]),
    ("allocationMode", &["ExactCount", "All"]),
    ("podIP", &["10.0.0.1", "10.0.0.2"]),
    ("ip", &["10.0.0.1", "10.0.0.2"]),
    ("podCIDR", &["10.0.0.0/24", "10.1.0.0/24"]),
    ("key", &["pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match", "app"]),
    ("operator", &["Exists", "DoesNotExist"]),
    ("serviceAccount", &["builder", "default"]),
    ("serviceAccountName", &["builder", "default"]),
];
const IMAGES: &[&str] = &[
    "web",
    "web:1",
    "web:latest",
    "Web",
    "example.com/a/b",
    "example.com:80/a/b:latest",
    "a@sha256:00",
    "x y",
    "host.x/a_b__c",
];
const STRINGS: &[&str] = &["", "a", "web", "10%", "é<>"];
const QUANTITIES: &[&str] = &[
    "0",
    "1",
    "100m",
    "0.5",
    "1.5Gi",
    "1024Mi",
    "1000",
    "1e3",
    "12e6",
    "1n",
    "1500u",
    "1.0005",
    "0.0001",
    "-1.00001",
    "1e-5",
    "1.000500",
    "3.0000001Ki",
];
const KEYS: &[&str] = &["app", "tier", "cpu", "memory", "hugepages-2Mi", "example.com/gpu"];
const ANNOTATIONS: &[&str] = &[
    "app",
    "pod.beta.kubernetes.io/init-containers",
    "deprecated.deployment.rollback.to",
    "deprecated.daemonset.template.generation",
    "autoscaling.alpha.kubernetes.io/behavior",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator { random: SeededRandom::new(seed) }
    }

    pub fn object(&mut self, types: &Types, id: TypeId) -> Value {
        // From nearly empty to nearly full.
        let density = 10 + self.below(70);
        self.structure(types, id, 0, density)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit)
    }

    fn pick<'s>(&mut self, choices: &[&'s str]) -> &'s str {
        self.random.pick(choices)
    }

    fn structure(&mut self, types: &Types, id: TypeId, depth: usize, density: usize) -> Value {
        let mut object = Map::new();
        for slot in &types[id].slots {
            let is_frame = depth == 0 && matches!(slot.name, "spec" | "metadata" | "status");
            let share = if depth > 5 { density / 4 } else { density };
            // Times come from a clock and are not compared.
            if slot.name == "timeAdded" || !(is_frame || self.below(100) < share) {
                continue;
            }
            let value = match self.below(30) {
                0 => Value::Null,
                _ => self.value(types, slot.name, slot.kind, depth + 1, density),
            };
            object.insert(slot.name.to_owned(), value);
        }
        Value::Object(object)
    }

    fn value(&mut self, types: &Types, name: &str, kind: TypeRef, depth: usize, density: usize) -> Value {
        match kind {
            TypeRef::Named(scalar) => match &scalar.values {
                Some(values) if self.below(5) > 0 => self.pick(values).into(),
                _ => self.text(name),
            },
            TypeRef::String => self.text(name),
            TypeRef::Bool => (self.below(2) == 0).into(),
            TypeRef::Int32 | TypeRef::Int64 => [0, 1, -1, 80, 8080][self.below(5)].into(),
            TypeRef::Float64 => json!(1.5),
            TypeRef::Bytes => self.pick(&["", "YQ==", "YWI="]).into(),
            TypeRef::Time => "2026-11-15T08:07:21Z".into(),
            TypeRef::MicroTime => "2026-11-15T08:07:21.123456Z".into(),
            TypeRef::Quantity => self.pick(QUANTITIES).into(),
            TypeRef::IntOrString => {
                [json!(0), json!(80), json!(""), json!("http"), json!("10%")][self.below(5)].clone()
            }
            TypeRef::RawExtension | TypeRef::FieldsV1 | TypeRef::Json | TypeRef::Any => {
                json!({"a": [1, "b"]})
            }
            TypeRef::JsonSchemaOrBool => true.into(),
            TypeRef::JsonSchemaOrArray => json!([]),
            TypeRef::JsonSchemaOrStringArray => json!(["a"]),
            TypeRef::Struct(id) if depth < 12 => self.structure(types, id, depth, density),
            TypeRef::Struct(_) => json!({}),
            TypeRef::List(list) => {
                let length = self.below(if depth > 5 { 2 } else { 3 });
                (0..length).map(|_| self.value(types, name, list.element, depth + 1, density)).collect()
            }
            TypeRef::Map(map) => {
                let length = self.below(if depth > 5 { 2 } else { 4 });
                let mut object = Map::new();
                for _ in 0..length {
                    if name == "annotations" {
                        let value = self.pick(&["", "1", "+07", "1"]).into();
                        object.insert(self.pick(ANNOTATIONS).to_owned(), value);
                    } else {
                        let value = self.value(types, name, map.value, depth + 1, density);
                        object.insert(self.pick(KEYS).to_owned(), value);
                    }
                }
                Value::Object(object)
            }
        }
    }

    fn text(&mut self, name: &str) -> Value {
        let liked = PREFERRED_VALUES.iter().find(|(liked, _)| *liked == name);
        match liked {
            Some((_, values)) if self.below(5) > 0 => self.pick(values).into(),
            _ => self.pick(STRINGS).into(),
        }
    }
}
