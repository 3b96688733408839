//! Pairs of schemas from widely used CustomResourceDefinitions: variants that projects publish, and changes
//! of the kind that releases make.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::OnceLock;

use atoll_meta::Deadline;
use atoll_negotiation::{
    AllUsed, Comparison, ImportedDefinition, Unused, canonical_text, compare, lowest_common_denominator,
};
use atoll_upstream::bundles::{BUNDLES, modules};
use serde_json::{Value, json};

/// The schemas of all definitions, by bundle, variant, name of the definition and version.
struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    fn read() -> Option<&'static Schemas> {
        static READ: OnceLock<Option<Schemas>> = OnceLock::new();
        READ.get_or_init(Schemas::read_all).as_ref()
    }

    fn read_all() -> Option<Schemas> {
        let modules = modules()?;
        let mut schemas = BTreeMap::new();
        for bundle in &BUNDLES {
            for (variant, definitions) in
                [("installed", bundle.installed(&modules)), ("judged", bundle.judged(&modules))]
            {
                for definition in definitions {
                    let parsed: Value = serde_json::from_str(&definition.body).unwrap();
                    let imported = ImportedDefinition::from_definition(&parsed)
                        .unwrap_or_else(|excess| panic!("{}: {excess:?}", definition.name));
                    for version in imported.versions {
                        let name = format!("{} {variant} {} {}", bundle.name, definition.name, version.name);
                        schemas.insert(name, version.schema);
                    }
                }
            }
        }
        Some(Schemas(schemas))
    }

    fn get(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.0.keys().collect::<Vec<_>>()))
    }
}

/// A change of the cluster's schema.
enum Edit {
    Set(&'static str, Value),
    Remove(&'static str),
}

use Edit::{Remove, Set};

#[derive(Debug, PartialEq)]
enum Expected {
    Same,
    Narrowed(&'static [&'static str]),
    Refused(&'static [&'static str]),
}

use Expected::{Narrowed, Refused, Same};

struct Pair {
    offered: &'static str,
    cluster: &'static str,
    edits: Vec<Edit>,
    expected: Expected,
}

const CERTIFICATES: &str = "cert-manager installed certificates.cert-manager.io v1";
const ISSUERS: &str = "cert-manager installed issuers.cert-manager.io v1";
const MONITORS: &str = "prometheus-operator installed servicemonitors.monitoring.coreos.com v1";
const RULES: &str = "prometheus-operator installed prometheusrules.monitoring.coreos.com v1";
const GATEWAYS: &str = "gateway-api installed gateways.gateway.networking.k8s.io v1";
const GRANTS: &str = "gateway-api installed referencegrants.gateway.networking.k8s.io v1beta1";
const MACHINES: &str = "cluster-api installed machines.cluster.x-k8s.io v1beta2";

fn edited(name: &'static str, edits: Vec<Edit>, expected: Expected) -> Pair {
    Pair { offered: name, cluster: name, edits, expected }
}

fn variants(offered: &'static str, cluster: &'static str, expected: Expected) -> Pair {
    Pair { offered, cluster, edits: Vec::new(), expected }
}

fn pairs() -> Vec<Pair> {
    vec![
        variants(CERTIFICATES, CERTIFICATES, Same),
        edited(
            CERTIFICATES,
            vec![Remove("/properties/spec/properties/keystores")],
            Narrowed(&[".spec.keystores: present in the offered schema, absent in cluster east"]),
        ),
        edited(
            CERTIFICATES,
            vec![Set("/properties/spec/properties/extra", json!({ "type": "string" }))],
            Same,
        ),
        edited(
            CERTIFICATES,
            vec![Set("/properties/spec/properties/revisionHistoryLimit/type", json!("string"))],
            Refused(&[".spec.revisionHistoryLimit: integer in the offered schema, string in cluster east"]),
        ),
        edited(
            CERTIFICATES,
            vec![Set("/properties/spec/required", json!(["issuerRef", "secretName", "duration"]))],
            Narrowed(&[".spec.duration: optional in the offered schema, required in cluster east"]),
        ),
        edited(
            CERTIFICATES,
            vec![Remove("/properties/spec/properties/issuerRef")],
            Refused(&[".spec.issuerRef: required in the offered schema, absent in cluster east"]),
        ),
        edited(
            CERTIFICATES,
            vec![Set(
                "/properties/spec/properties/privateKey/properties/algorithm/enum",
                json!(["RSA", "ECDSA"]),
            )],
            Narrowed(&[
                ".spec.privateKey.algorithm: only values \"RSA\", \"ECDSA\", \"Ed25519\" in the offered schema, only values \"RSA\", \"ECDSA\" in cluster east",
            ]),
        ),
        edited(
            ISSUERS,
            vec![Remove("/properties/spec/properties/vault")],
            Narrowed(&[".spec.vault: present in the offered schema, absent in cluster east"]),
        ),
        edited(
            MONITORS,
            vec![Set(
                "/properties/spec/properties/endpoints/items/properties/interval/pattern",
                json!("^[0-9]+s$"),
            )],
            Refused(&[
                ".spec.endpoints[].interval: pattern ^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$ in the offered schema, pattern ^[0-9]+s$ in cluster east",
            ]),
        ),
        edited(
            MONITORS,
            vec![Remove("/properties/spec/properties/endpoints/items/properties/interval/pattern")],
            Same,
        ),
        edited(
            MONITORS,
            vec![Set(
                "/properties/spec/properties/endpoints/items/properties/targetPort",
                json!({ "type": "integer" }),
            )],
            Narrowed(&[
                ".spec.endpoints[].targetPort: integer or string in the offered schema, integer in cluster east",
            ]),
        ),
        edited(
            MONITORS,
            vec![Set("/properties/spec/properties/sampleLimit/format", json!("int32"))],
            Narrowed(&[
                ".spec.sampleLimit: format int64 in the offered schema, format int32 in cluster east",
            ]),
        ),
        edited(
            MONITORS,
            vec![Set("/properties/spec/properties/endpoints/maxItems", json!(10))],
            Narrowed(&[
                ".spec.endpoints: any number of items in the offered schema, at most 10 items in cluster east",
            ]),
        ),
        edited(
            RULES,
            vec![Set("/properties/spec/properties/groups/x-kubernetes-list-map-keys", json!(["limit"]))],
            Refused(&[".spec.groups: list keys name in the offered schema, list keys limit in cluster east"]),
        ),
        edited(
            RULES,
            vec![
                Remove("/properties/spec/properties/groups/x-kubernetes-list-map-keys"),
                Remove("/properties/spec/properties/groups/x-kubernetes-list-type"),
            ],
            Refused(&[".spec.groups: list type map in the offered schema, list type atomic in cluster east"]),
        ),
        edited(
            GATEWAYS,
            vec![Set("/properties/spec/properties/listeners/maxItems", json!(16))],
            Narrowed(&[
                ".spec.listeners: at most 64 items in the offered schema, at most 16 items in cluster east",
            ]),
        ),
        edited(
            GATEWAYS,
            vec![Set(
                "/properties/spec/x-kubernetes-validations",
                json!([{ "rule": "self.listeners.size() < 9" }]),
            )],
            Narrowed(&[
                ".spec: no such rule in the offered schema, rule self.listeners.size() < 9 in cluster east",
            ]),
        ),
        edited(
            GATEWAYS,
            vec![Set("/properties/spec/properties/listeners/items/properties/port/minimum", json!(1024))],
            Narrowed(&[
                ".spec.listeners[].port: minimum 1 in the offered schema, minimum 1024 in cluster east",
            ]),
        ),
        edited(
            GRANTS,
            vec![Set("/properties/spec/properties/to/items/properties/name/maxLength", json!(63))],
            Narrowed(&[
                ".spec.to[].name: at most 253 characters in the offered schema, at most 63 characters in cluster east",
            ]),
        ),
        edited(
            MACHINES,
            vec![Set("/properties/spec/properties/bootstrap/minProperties", json!(2))],
            Narrowed(&[
                ".spec.bootstrap: any number of fields in the offered schema, at least 2 fields in cluster east",
            ]),
        ),
        edited(
            MACHINES,
            vec![Set(
                "/properties/spec/properties/clusterName",
                json!({ "x-kubernetes-int-or-string": true }),
            )],
            Same,
        ),
        variants(
            "prometheus-operator installed servicemonitors.monitoring.coreos.com v1",
            "prometheus-operator judged servicemonitors.monitoring.coreos.com v1",
            Same,
        ),
        variants(
            "prometheus-operator installed prometheuses.monitoring.coreos.com v1",
            "prometheus-operator judged prometheuses.monitoring.coreos.com v1",
            Same,
        ),
        variants(
            "gateway-api installed referencegrants.gateway.networking.k8s.io v1beta1",
            "gateway-api judged referencegrants.gateway.networking.k8s.io v1beta1",
            Same,
        ),
    ]
}

fn edit(schema: &mut Value, edit: &Edit) {
    let (Set(pointer, _) | Remove(pointer)) = edit;
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = schema.pointer_mut(parent).unwrap_or_else(|| panic!("there is no {parent}"));
    match edit {
        Set(_, value) => parent[name] = value.clone(),
        Remove(_) => assert!(parent.as_object_mut().unwrap().remove(name).is_some(), "there is no {pointer}"),
    }
}

#[test]
fn verdicts_of_widely_used_definitions() {
    let Some(schemas) = Schemas::read() else { return };
    let mut wrong = Vec::new();
    let pairs = pairs();
    assert!(pairs.len() >= 20);
    for Pair { offered, cluster, edits, expected } in &pairs {
        let (one, mut other) = (schemas.get(offered), schemas.get(cluster).clone());
        edits.iter().for_each(|change| edit(&mut other, change));
        let found = lowest_common_denominator("v1", one, &other, &Unused, &Deadline::never());
        let in_use = lowest_common_denominator("v1", one, &other, &AllUsed, &Deadline::never());
        let (is_same, found) = match found {
            Ok(common) => (common.lost.is_empty(), Ok(common.lost.describe("east"))),
            Err(fields) => (false, Err(fields.describe("east"))),
        };
        let agrees = match (expected, &found) {
            (Same, Ok(_)) => is_same && in_use.is_ok(),
            (Narrowed(words), Ok(found)) => found == words && in_use.is_err(),
            (Refused(words), Err(found)) => found == words && in_use.is_err(),
            _ => false,
        };
        if !agrees {
            wrong.push(format!("{offered}\n{cluster}\n  found {found:?}\n  expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), pairs.len(), wrong.join("\n"));
}

/// Every pair of schemas of the same definition: the merged one is a fixed point, and narrowing is sound.
#[test]
fn all_variants_and_versions_can_be_compared() {
    let Some(schemas) = Schemas::read() else { return };
    let mut compared = 0;
    for (name, one) in &schemas.0 {
        let words: Vec<&str> = name.split(' ').collect();
        for (other_name, other) in &schemas.0 {
            let other_words: Vec<&str> = other_name.split(' ').collect();
            if (words[0], words[2]) != (other_words[0], other_words[2]) {
                continue;
            }
            compared += 1;
            let Comparison { merged, losses, contradictions, .. } = compare(one, other, &Deadline::never());
            if name == other_name {
                assert!(losses.is_empty() && contradictions.is_empty() && merged == *one, "{name}");
            }
            if contradictions.is_empty() {
                let again = compare(&merged, other, &Deadline::never());
                assert!(again.losses.is_empty() && again.contradictions.is_empty(), "{name} {other_name}");
                assert_eq!(canonical_text(&again.merged), canonical_text(&merged));
            }
            if std::env::var_os("SHOW").is_some() && name != other_name {
                println!(
                    "{name} | {other_name}: {:?} {:?}",
                    losses.describe("b"),
                    contradictions.describe("b")
                );
            }
        }
    }
    assert!(compared > 100, "{compared} pairs");
}
