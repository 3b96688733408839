//! Allocates and releases addresses and node ports.

// upstream: pkg/registry/core/service/storage/alloc.go

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use atoll_meta::{FieldError, FieldPath, Status, id, object};
use atoll_store::{Condition, Key, Write, WriteError};
use atoll_watch::{Facts, Snapshot};
use bytes::Bytes;
use serde_json::{Value, json};

use super::address::{Prefix, family};
use super::fields::{self, list, node_ports, number, set};
use crate::allocation::Allocation;
use crate::row::ObjectRef;
use crate::{Registry, facts, parse, random, unavailable};

/// Group and resource of the internal keys of node ports.
pub(crate) const PORTS: (&str, &str) = ("internal.atoll.dev", "nodeports");

const IN_USE: &str = "provided port is already allocated";

/// Allocates for one Service.
struct Allocator<'a> {
    registry: &'a Registry,
    snapshot: &'a Snapshot,
    object_ref: &'a ObjectRef<'a>,
    dry_run: bool,
    allocated: Vec<Key>,
    /// Ports that a dry run would allocate.
    tried: Vec<i64>,
}

impl Registry {
    /// Fills in the missing fields of a new or changed Service, and allocates addresses and ports.
    pub(crate) async fn allocate_for_service(
        &self,
        object_ref: ObjectRef<'_>,
        new: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Allocation, Status> {
        if let Some(old) = old {
            fields::keep_allocated(new, old);
        }
        fields::align_addresses(new, old);
        if !fields::needs_address(new) {
            set(new, "internalTrafficPolicy", None);
        }
        fields::families(new, old, &self.network).map_err(|errors| invalid(new, errors))?;
        let (snapshot, object_ref) = (self.snapshot(), &object_ref);
        let (allocated, tried) = (Vec::new(), Vec::new());
        let mut allocator =
            Allocator { registry: self, snapshot: &snapshot, object_ref, dry_run, allocated, tried };
        let filled = allocator.fill(new, old).await;
        let allocation =
            Allocation { allocated: std::mem::take(&mut allocator.allocated), unused: Vec::new() };
        match filled {
            Ok(()) => {
                let unused = old.map_or(Vec::new(), |old| self.unused(object_ref, new, old));
                Ok(Allocation { unused: if dry_run { Vec::new() } else { unused }, ..allocation })
            }
            Err(status) => {
                self.release(allocation.allocated).await;
                Err(status)
            }
        }
    }

    /// Releases all keys of a deleted Service.
    pub(crate) async fn free_service(&self, object_ref: ObjectRef<'_>, service: &Value) {
        self.release(self.keys(&object_ref, service)).await;
    }

    /// The keys of the old Service that the new one does not have.
    fn unused(&self, object_ref: &ObjectRef<'_>, new: &Value, old: &Value) -> Vec<Key> {
        // Addresses are dropped only when the type changes; the request may still contain them.
        let mut kept = new.clone();
        fields::drop_type_dependent_fields(&mut kept, old);
        let kept = self.keys(object_ref, &kept);
        self.keys(object_ref, old).into_iter().filter(|key| !kept.contains(key)).collect()
    }

    /// All keys that a Service has allocated.
    fn keys(&self, object_ref: &ObjectRef<'_>, service: &Value) -> Vec<Key> {
        let mut keys = Vec::new();
        if fields::needs_address(service) && !fields::is_headless(service) {
            let addresses = list(service, "clusterIPs").into_iter().filter(|address| !address.is_empty());
            keys.extend(addresses.map(|address| address_key(object_ref, address)));
        }
        let health = Some(number(&service["spec"], "healthCheckNodePort"));
        let health = health.filter(|port| *port > 0 && fields::needs_health_port(service));
        keys.extend(node_ports(service).into_iter().chain(health).map(|port| port_key(object_ref, port)));
        keys
    }

    /// The address ranges of a family in this workspace.
    fn ranges(&self, snapshot: &Snapshot, object_ref: &ObjectRef<'_>, family: &str) -> Vec<Prefix> {
        let own = self.network.ranges.iter().copied().filter(|range| range.family() == family);
        let mut ranges: Vec<Prefix> = own.collect();
        let Some(row) = self.catalog.stored("networking.k8s.io", "servicecidrs") else { return ranges };
        for object in snapshot.list(&row.scope(Some(object_ref.workspace), ""), None) {
            let Ok(added) = parse(&object.json()) else { continue };
            let conditions = added["status"]["conditions"].as_array().into_iter().flatten();
            let ready = conditions.into_iter().any(|own| own["type"] == "Ready" && own["status"] == "True");
            if !ready || object::is_being_deleted(&added) {
                continue;
            }
            let parsed = list(&added, "cidrs").into_iter().filter_map(|text| text.parse::<Prefix>().ok());
            for range in parsed.filter(|range| range.family() == family) {
                if !ranges.contains(&range) {
                    ranges.push(range);
                }
            }
        }
        ranges
    }
}

impl Allocator<'_> {
    async fn fill(&mut self, new: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if fields::needs_address(new) && !old.is_some_and(|old| fields::is_network_unchanged(new, old)) {
            self.addresses(new, old).await?;
        }
        if fields::has_node_ports(new) {
            match old {
                None => self.new_ports(new).await?,
                Some(old) => self.changed_ports(new, old).await?,
            }
        }
        let had_health_port = old.is_some_and(fields::needs_health_port);
        if fields::needs_health_port(new) && !had_health_port {
            self.health_port(new).await?;
        }
        Ok(())
    }

    /// Allocates one address for each family, except those that the Service already has.
    async fn addresses(&mut self, new: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        let before = old.filter(|old| fields::needs_address(old));
        if fields::is_headless(new) || before.is_some_and(fields::is_headless) {
            return Ok(());
        }
        let owned = |field| list(new, field).into_iter().map(String::from).collect::<Vec<_>>();
        let (families, mut addresses) = (owned("ipFamilies"), owned("clusterIPs"));
        let kept = before.map_or(0, |before| list(before, "ipFamilies").len());
        addresses.resize(addresses.len().max(families.len()), String::new());
        for (index, family) in families.iter().enumerate().skip(kept) {
            let wanted = addresses[index].clone();
            let shown: Vec<String> = list(new, "clusterIPs").into_iter().map(String::from).collect();
            addresses[index] = match wanted.as_str() {
                "" => self.any_address(new, family).await?,
                wanted => {
                    let allocated = self.this_address(new, wanted).await?;
                    allocated.map_err(|why| {
                        let message = format!("failed to allocate IP {wanted}: {why}");
                        let path = FieldPath::new("spec").child("clusterIPs");
                        invalid(new, vec![FieldError::invalid(&path, json!(shown), message)])
                    })?;
                    wanted.to_string()
                }
            };
        }
        if families.len() > kept {
            if kept == 0
                && let Some(first) = addresses.first()
            {
                set(new, "clusterIP", Some(first.as_str().into()));
            }
            set(new, "clusterIPs", Some(json!(addresses)));
        }
        Ok(())
    }

    async fn any_address(&mut self, service: &Value, family: &str) -> Result<String, Status> {
        for range in self.registry.ranges(self.snapshot, self.object_ref, family) {
            if self.dry_run {
                return Ok(range.network().to_string());
            }
            for number in range.parts().candidates(u128::from_ne_bytes(random()?)) {
                let address = range.address(number);
                if self.take_address(service, address).await? {
                    return Ok(address.to_string());
                }
            }
        }
        let name = object::name(service);
        Err(Status::internal_error(format!(
            "failed to allocate a serviceIP for Service {name:?}: range is full"
        )))
    }

    /// Allocates a requested address; returns the reason if it is not available.
    async fn this_address(&mut self, service: &Value, wanted: &str) -> Result<Result<(), String>, Status> {
        // Invalid addresses are refused by validation.
        let Ok(address) = wanted.parse::<IpAddr>() else { return Ok(Ok(())) };
        let ranges = self.registry.ranges(self.snapshot, self.object_ref, family(address));
        let usable = |range: &Prefix| {
            let parts = range.parts();
            range.contains(address)
                && (range.address(parts.first)..=range.address(parts.last)).contains(&address)
        };
        if !ranges.iter().any(usable) {
            return Ok(Err("the provided network does not match the current range".into()));
        }
        match self.dry_run || self.take_address(service, address).await? {
            true => Ok(Ok(())),
            false => Ok(Err("provided IP is already allocated".into())),
        }
    }

    /// Allocates an address; returns whether it succeeded.
    async fn take_address(&mut self, service: &Value, address: IpAddr) -> Result<bool, Status> {
        let Some(row) = self.registry.catalog.stored("networking.k8s.io", "ipaddresses").cloned() else {
            return Ok(true);
        };
        let name = address.to_string();
        let mut object =
            self.allocation_record(&row.kind, &row.api_version(), &name, object::name(service))?;
        let metadata = object::metadata_mut(&mut object);
        let labels = json!({
            "ipaddress.kubernetes.io/ip-family": family(address),
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        });
        metadata.insert("labels".into(), labels);
        self.registry.record_new(&row, &mut object, "kube-apiserver");
        let facts = facts::of(&self.registry.catalog, &row, &object);
        self.take(address_key(self.object_ref, &name), &object, facts).await
    }

    /// The object that records the Service of an allocation.
    fn allocation_record(
        &self,
        kind: &str,
        api_version: &str,
        name: &str,
        service: &str,
    ) -> Result<Value, Status> {
        Ok(json!({
            "kind": kind,
            "apiVersion": api_version,
            "metadata": {
                "name": name,
                "uid": id::uuid_v4(random()?),
                "creationTimestamp": self.registry.now(),
            },
            "spec": {
                "parentRef": { "resource": "services", "namespace": self.object_ref.namespace, "name": service },
            },
        }))
    }

    /// Whether the Service of an allocation does not exist and is not about to be created.
    fn is_orphaned(&self, holder: &Value, key: &Key) -> bool {
        let parent = &holder["spec"]["parentRef"];
        let field = |name: &str| parent[name].as_str().unwrap_or_default();
        if field("resource") != "services" || self.snapshot.is_layered(key) {
            return false;
        }
        let age = atoll_meta::object::creation_timestamp(holder)
            .and_then(|text| atoll_meta::time::parse(text).ok())
            .map_or(0, |time| self.registry.clock.seconds() - time.seconds);
        let service =
            Key::object("", "services", self.object_ref.workspace, field("namespace"), field("name"));
        age > ORPHANED_AFTER && self.snapshot.get(&service).is_none()
    }

    /// Allocates a key that is free or was left behind.
    async fn take(&mut self, key: Key, object: &Value, hint: std::sync::Arc<Facts>) -> Result<bool, Status> {
        if let Some(holder) = self.snapshot.get(&key)
            && !self.is_orphaned(&parse(&holder.json())?, &key)
        {
            return Ok(false);
        }
        let expect = self.snapshot.stored_revision(&key).map_or(Condition::Absent, Condition::At);
        let value = Some(Bytes::from(atoll_meta::json::encode_object(object)));
        let write = Write { key: key.clone(), expect, value, guards: Vec::new(), hint: Some(hint) };
        match self.registry.store.write(write).await {
            Ok(_) => {
                self.allocated.push(key);
                Ok(true)
            }
            Err(WriteError::Unmet { .. }) => Ok(false),
            Err(WriteError::Unavailable(cause)) => Err(unavailable(&cause)),
        }
    }

    async fn new_ports(&mut self, new: &mut Value) -> Result<(), Status> {
        let allocates = fields::allocates_node_ports(new);
        let ports = new["spec"]["ports"].as_array().cloned().unwrap_or_default();
        let mut given: HashMap<i64, i64> = HashMap::new();
        let mut requests: HashMap<i64, i64> = HashMap::new();
        for port in ports.iter().filter(|port| number(port, "nodePort") != 0) {
            requests.entry(number(port, "port")).or_insert_with(|| number(port, "nodePort"));
        }
        for (index, port) in ports.iter().enumerate() {
            let (own, wanted) = (number(port, "port"), number(port, "nodePort"));
            if wanted == 0 && !allocates {
                continue;
            }
            // Ports with the same number, as for TCP and UDP, share a node port.
            let node = match given.get(&own).copied() {
                Some(node) if wanted == 0 || wanted == node => node,
                Some(_) => {
                    self.this_port(new, index, wanted).await?;
                    wanted
                }
                None => {
                    let node = match requests.get(&own).copied() {
                        Some(node) => {
                            self.this_port(new, index, node).await?;
                            node
                        }
                        None => self.any_port().await?,
                    };
                    given.insert(own, node);
                    node
                }
            };
            new["spec"]["ports"][index]["nodePort"] = node.into();
        }
        Ok(())
    }

    async fn changed_ports(&mut self, new: &mut Value, old: &Value) -> Result<(), Status> {
        let before = if fields::has_node_ports(old) { node_ports(old) } else { Vec::new() };
        let before: HashSet<i64> = before.into_iter().collect();
        let allocates = fields::allocates_node_ports(new);
        let mut given: HashSet<i64> = HashSet::new();
        let ports = new["spec"]["ports"].as_array().cloned().unwrap_or_default();
        for (index, port) in ports.iter().enumerate() {
            match number(port, "nodePort") {
                0 if !allocates => {}
                0 => new["spec"]["ports"][index]["nodePort"] = self.any_port().await?.into(),
                wanted if before.contains(&wanted) || given.contains(&wanted) => {}
                wanted => {
                    self.this_port(new, index, wanted).await?;
                    given.insert(wanted);
                }
            }
        }
        Ok(())
    }

    async fn health_port(&mut self, new: &mut Value) -> Result<(), Status> {
        let wanted = number(&new["spec"], "healthCheckNodePort");
        let port = match wanted {
            0 => self.any_port().await?,
            wanted => {
                self.take_port(wanted).await?.map_err(|why| {
                    let message =
                        format!("failed to allocate requested HealthCheck NodePort {wanted}: {why}");
                    Status::internal_error(message)
                })?;
                wanted
            }
        };
        set(new, "healthCheckNodePort", Some(port.into()));
        Ok(())
    }

    async fn this_port(&mut self, service: &Value, index: usize, wanted: i64) -> Result<(), Status> {
        self.take_port(wanted).await?.map_err(|why| {
            let path = FieldPath::new("spec").child("ports").index(index).child("nodePort");
            invalid(service, vec![FieldError::invalid(&path, wanted, why)])
        })
    }

    async fn any_port(&mut self) -> Result<i64, Status> {
        if self.dry_run {
            // A dry run allocates nothing, so any number will do.
            let port = self.tried.iter().copied().max().unwrap_or(32768) + 1;
            self.tried.push(port);
            return Ok(port);
        }
        for candidate in self.registry.network.ports.parts().candidates(u128::from_ne_bytes(random()?)) {
            let port = i64::try_from(candidate).unwrap_or(i64::MAX);
            if self.take_port(port).await?.is_ok() {
                return Ok(port);
            }
        }
        Err(Status::internal_error("failed to allocate a nodePort: range is full"))
    }

    /// Allocates a port; returns the reason if it is not available.
    async fn take_port(&mut self, port: i64) -> Result<Result<(), String>, Status> {
        let key = port_key(self.object_ref, port);
        let in_use = self.snapshot.stored_revision(&key).is_some() || self.tried.contains(&port);
        if self.dry_run {
            self.tried.push(port);
            return Ok(if in_use { Err(IN_USE.into()) } else { Ok(()) });
        }
        let range = self.registry.network.ports;
        if !range.contains(port) {
            let message = "provided port is not in the valid range. The range of valid ports is";
            return Ok(Err(format!("{message} {range}")));
        }
        let holder = self.allocation_record("NodePort", PORTS.0, &port.to_string(), self.object_ref.name)?;
        let allocated = self.take(key, &holder, Facts::none()).await?;
        Ok(if allocated { Ok(()) } else { Err(IN_USE.into()) })
    }
}

/// Seconds after which an allocation without its Service counts as left behind.
const ORPHANED_AFTER: i64 = 60;

fn invalid(service: &Value, errors: Vec<FieldError>) -> Status {
    Status::invalid("", "Service", object::name(service), errors)
}

fn address_key(object_ref: &ObjectRef<'_>, address: &str) -> Key {
    Key::object("networking.k8s.io", "ipaddresses", object_ref.workspace, "", address)
}

fn port_key(object_ref: &ObjectRef<'_>, port: i64) -> Key {
    Key::object(PORTS.0, PORTS.1, object_ref.workspace, "", &port.to_string())
}
