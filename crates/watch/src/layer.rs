//! The bootstrap layer: objects that every workspace has from the start, stored once for all of them.
//!
//! Upstream creates some 120 objects in an empty cluster. Copies in every workspace would use more memory
//! than everything else in it, so they are in one shared read-only layer and are visible until a workspace
//! writes its own version. Their uid depends on the workspace and on the control plane; their revision is the
//! first one.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use atoll_store::{Key, Revision};
use bytes::Bytes;

use crate::object::{Facts, Object};

/// The revision of objects in the layer.
pub const REVISION: Revision = 1;

/// Group of the server's internal keys. They belong to no workspace, and the API does not serve them.
pub const INTERNAL: &str = "internal.atoll.dev";

/// The key of the control plane's identity, which determines the uids of the objects in its layer. The API
/// does not serve it; it is part of every copy of the data.
pub fn identity_key() -> Key {
    Key::object(INTERNAL, "identity", "", "", "self")
}

#[derive(Clone, Default)]
pub struct Layer {
    /// By `group/resource/namespace/name`.
    objects: BTreeMap<Box<str>, Template>,
    /// The identity of the control plane, which makes uids different from those of other control planes.
    identity: Box<str>,
}

#[derive(Clone)]
struct Template {
    /// Canonical encoding with neither resource version nor uid.
    encoded: Bytes,
    facts: Arc<Facts>,
}

impl Layer {
    /// Returns the layer with the uids of a new identity, if `key` is the identity key.
    pub(crate) fn identified(&self, key: &Key, value: Option<&Bytes>) -> Option<Layer> {
        if **key != *"internal.atoll.dev/identity///self" {
            return None;
        }
        let identity = String::from_utf8_lossy(value.map_or(&[], |value| value));
        Some(Layer { objects: self.objects.clone(), identity: identity.into() })
    }

    /// Adds an object; `encoded` is its canonical encoding, without a uid.
    pub fn add(
        &mut self,
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
        encoded: Bytes,
        facts: Facts,
    ) {
        let path = layer_path(&Key::object(group, resource, "", namespace, name)).unwrap_or_default();
        self.objects.insert(path.into(), Template { encoded, facts: Arc::new(facts) });
    }

    pub fn contains(&self, key: &Key) -> bool {
        !self.objects.is_empty()
            && layer_path(key).is_some_and(|path| self.objects.contains_key(path.as_str()))
    }

    /// All objects of a group: resource, namespace, name and encoding.
    pub fn of_group(&self, group: &str) -> impl Iterator<Item = (&str, &str, &str, &Bytes)> {
        let prefix = format!("{group}/");
        let from = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let all: Vec<_> = self.objects.range::<str, _>(from).collect();
        let within =
            all.into_iter().map_while(move |(path, template)| Some((path.strip_prefix(&*prefix)?, template)));
        within.filter_map(|(path, template)| {
            let mut segments = path.splitn(3, '/');
            Some((segments.next()?, segments.next()?, segments.next()?, &template.encoded))
        })
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Object>> {
        if self.objects.is_empty() {
            return None;
        }
        let template = self.objects.get(layer_path(key)?.as_str())?;
        Some(template.in_workspace(key.clone(), &self.identity))
    }

    /// Whether the layer has objects under `prefix`.
    pub(crate) fn has(&self, prefix: &str) -> bool {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        self.objects.range::<str, _>(from).next().is_some_and(|(path, _)| path.starts_with(prefix))
    }

    /// The layer's objects under `prefix`, as objects of `workspace`, starting after the key `after`.
    pub(crate) fn list(
        &self,
        prefix: &str,
        one_object: bool,
        workspace: &str,
        after: Option<String>,
    ) -> Vec<Arc<Object>> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let within = self.objects.range::<str, _>(from).take_while(|(path, _)| match one_object {
            true => ***path == *prefix,
            false => path.starts_with(prefix),
        });
        let mut objects: Vec<_> = within
            .filter_map(|(path, template)| {
                let mut segments = path.splitn(4, '/');
                let [group, resource, namespace, name] = [(); 4].map(|()| segments.next());
                let key = Key::object(group?, resource?, workspace, namespace?, name?);
                (after.as_deref().is_none_or(|after| *key > *after))
                    .then(|| template.in_workspace(key, &self.identity))
            })
            .collect();
        // `a/x` and `a-b/x` sort alike with and without the workspace, but sorting is simpler than proving
        // it.
        objects.sort_by(|one, other| one.key.cmp(&other.key));
        objects
    }
}

impl Template {
    fn in_workspace(&self, key: Key, identity: &str) -> Arc<Object> {
        let uid = uid(&key, identity);
        let opening = atoll_meta::json::prefix_len(&self.encoded) + "\"metadata\":{".len();
        let mut encoded = Vec::with_capacity(self.encoded.len() + 48);
        encoded.extend_from_slice(&self.encoded[..opening]);
        encoded.extend_from_slice(b"\"uid\":\"");
        encoded.extend_from_slice(uid.as_bytes());
        encoded.extend_from_slice(b"\",");
        encoded.extend_from_slice(&self.encoded[opening..]);
        Arc::new(Object::new(key, REVISION, &encoded, self.facts.clone()))
    }
}

/// `group/resource/namespace/name`: a key without its workspace.
fn layer_path(key: &Key) -> Option<String> {
    let parts = key.parts()?;
    Some([parts.group, parts.resource, parts.namespace, parts.name].join("/"))
}

/// The uid is the same in every process and at every start, so that clients recognise the object.
fn uid(key: &Key, identity: &str) -> String {
    let text = [key.as_bytes(), identity.as_bytes()].concat();
    let [high, low] = [0xcbf2_9ce4_8422_2325_u64, 0x8422_2325_cbf2_9ce4].map(|seed| fnv1a(seed, &text));
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&high.to_be_bytes());
    bytes[8..].copy_from_slice(&low.to_be_bytes());
    atoll_meta::id::uuid_v4(bytes)
}

fn fnv1a(seed: u64, bytes: &[u8]) -> u64 {
    let mixed =
        bytes.iter().fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    // FNV's high bits are weak for short input: one more round of mixing spreads them.
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}
