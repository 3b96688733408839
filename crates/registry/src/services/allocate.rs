//! Taking addresses and ports, and giving them back.

use std::net::IpAddr;

use atoll_meta::{FieldError, FieldPath, Status, id, object};
use atoll_store::{Condition, Key, Write, WriteError};
use atoll_watch::{Facts, Snapshot};
use bytes::Bytes;
use serde_json::{Value, json};

use super::address::{Prefix, family};
use super::fields::{self, list, node_ports, number, set};
use crate::row::Place;
use crate::{Registry, facts, parse, random, unavailable};

/// Group and resource of the keys that node ports are taken under. Nobody sees them.
pub(crate) const PORTS: (&str, &str) = ("internal.atoll.dev", "nodeports");

const IN_USE: &str = "provided port is already allocated";

/// What a write of a Service took, and what it no longer needs.
#[derive(Default)]
pub(crate) struct Taken {
    taken: Vec<Key>,
    unused: Vec<Key>,
}

/// Taking for one Service.
struct Taking<'a> {
    registry: &'a Registry,
    snapshot: &'a Snapshot,
    place: &'a Place<'a>,
    dry_run: bool,
    taken: Vec<Key>,
    /// Ports that a dry run would take.
    tried: Vec<i64>,
}

impl Registry {
    /// Fills in what a new or changed Service leaves open, and takes addresses and ports for it.
    pub(crate) async fn take_for_service(
        &self,
        place: &Place<'_>,
        new: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Taken, Status> {
        if let Some(old) = old {
            fields::keep_allocated(new, old);
        }
        fields::align_addresses(new, old);
        if !fields::needs_address(new) {
            set(new, "internalTrafficPolicy", None);
        }
        fields::families(new, old, &self.network).map_err(|errors| invalid(new, errors))?;
        let snapshot = self.snapshot();
        let (taken, tried) = (Vec::new(), Vec::new());
        let mut taking = Taking { registry: self, snapshot: &snapshot, place, dry_run, taken, tried };
        let filled = taking.fill(new, old).await;
        let taken = Taken { taken: std::mem::take(&mut taking.taken), unused: Vec::new() };
        match filled {
            Ok(()) => {
                let unused = old.map_or(Vec::new(), |old| self.unused(place, new, old));
                Ok(Taken { unused: if dry_run { Vec::new() } else { unused }, ..taken })
            }
            Err(status) => {
                self.give_back(taken.taken).await;
                Err(status)
            }
        }
    }

    /// The Service was written: what it has no more use for is free.
    pub(crate) async fn settle_taken(&self, taken: Taken) {
        self.give_back(taken.unused).await;
    }

    /// The Service was not written.
    pub(crate) async fn undo_taken(&self, taken: Taken) {
        self.give_back(taken.taken).await;
    }

    /// A Service is gone.
    pub(crate) async fn free_service(&self, place: &Place<'_>, service: &Value) {
        self.give_back(self.keys(place, service)).await;
    }

    async fn give_back(&self, keys: Vec<Key>) {
        for key in keys {
            if let Err(status) = self.remove(key).await {
                let cause = status.message();
                tracing::warn!(
                    cause,
                    "an address or a port of a Service stays taken until somebody asks for it"
                );
            }
        }
    }

    /// What the old Service had and the new one has not.
    fn unused(&self, place: &Place<'_>, new: &Value, old: &Value) -> Vec<Key> {
        // Addresses are forgotten only when the type changes; by then they may still stand in the request.
        let mut kept = new.clone();
        fields::drop_what_the_type_has_not(&mut kept, old);
        let kept = self.keys(place, &kept);
        self.keys(place, old).into_iter().filter(|key| !kept.contains(key)).collect()
    }

    /// All that a Service holds.
    fn keys(&self, place: &Place<'_>, service: &Value) -> Vec<Key> {
        let mut keys = Vec::new();
        if fields::needs_address(service) && !fields::is_headless(service) {
            let addresses = list(service, "clusterIPs").into_iter().filter(|address| !address.is_empty());
            keys.extend(addresses.map(|address| address_key(place, address)));
        }
        let health = Some(number(&service["spec"], "healthCheckNodePort"));
        let health = health.filter(|port| *port > 0 && fields::needs_health_port(service));
        keys.extend(node_ports(service).into_iter().chain(health).map(|port| port_key(place, port)));
        keys
    }

    /// The ranges that addresses of a family may come from in this workspace.
    fn ranges(&self, snapshot: &Snapshot, place: &Place<'_>, family: &str) -> Vec<Prefix> {
        let own = self.network.ranges.iter().copied().filter(|range| range.family() == family);
        let mut ranges: Vec<Prefix> = own.collect();
        let Some(row) = self.catalog.stored("networking.k8s.io", "servicecidrs") else { return ranges };
        for object in snapshot.list(&row.scope(Some(place.workspace), ""), None) {
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

impl Taking<'_> {
    async fn fill(&mut self, new: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if fields::needs_address(new) && !old.is_some_and(|old| fields::stays_as_it_is(new, old)) {
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

    /// One address for each family, but for those that the Service has.
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
                    let taken = self.this_address(new, wanted).await?;
                    taken.map_err(|why| {
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
        for range in self.registry.ranges(self.snapshot, self.place, family) {
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

    /// Takes an address that was asked for; the reason if it cannot be had.
    async fn this_address(&mut self, service: &Value, wanted: &str) -> Result<Result<(), String>, Status> {
        // What is no address is refused by the checks that come.
        let Ok(address) = wanted.parse::<IpAddr>() else { return Ok(Ok(())) };
        let ranges = self.registry.ranges(self.snapshot, self.place, family(address));
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

    /// Whether the address is now this Service's.
    async fn take_address(&mut self, service: &Value, address: IpAddr) -> Result<bool, Status> {
        let Some(row) = self.registry.catalog.stored("networking.k8s.io", "ipaddresses").cloned() else {
            return Ok(true);
        };
        let name = address.to_string();
        let mut object = self.holder(&row.kind, &row.api_version(), &name, object::name(service))?;
        let metadata = object::metadata_mut(&mut object);
        let labels = json!({
            "ipaddress.kubernetes.io/ip-family": family(address),
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        });
        metadata.insert("labels".into(), labels);
        self.registry.record_new(&row, &mut object, "kube-apiserver");
        let facts = facts::of(&self.registry.catalog, &row, &object);
        self.take(address_key(self.place, &name), &object, facts).await
    }

    /// Says for which Service something is taken.
    fn holder(&self, kind: &str, api_version: &str, name: &str, service: &str) -> Result<Value, Status> {
        Ok(json!({
            "kind": kind,
            "apiVersion": api_version,
            "metadata": {
                "name": name,
                "uid": id::uuid_v4(random()?),
                "creationTimestamp": self.registry.now(),
            },
            "spec": {
                "parentRef": { "resource": "services", "namespace": self.place.namespace, "name": service },
            },
        }))
    }

    /// Whether the Service that something was taken for is not there, nor about to be.
    fn is_left_behind(&self, holder: &Value, key: &Key) -> bool {
        let parent = &holder["spec"]["parentRef"];
        let field = |name: &str| parent[name].as_str().unwrap_or_default();
        if field("resource") != "services" || self.snapshot.is_layered(key) {
            return false;
        }
        let age = atoll_meta::object::creation_timestamp(holder)
            .and_then(|text| atoll_meta::time::parse(text).ok())
            .map_or(0, |time| self.registry.clock.now() - time.seconds);
        let service = Key::object("", "services", self.place.workspace, field("namespace"), field("name"));
        age > LEFT_BEHIND && self.snapshot.get(&service).is_none()
    }

    /// Takes a key that nobody has, or that was left behind.
    async fn take(&mut self, key: Key, object: &Value, hint: std::sync::Arc<Facts>) -> Result<bool, Status> {
        if let Some(holder) = self.snapshot.get(&key)
            && !self.is_left_behind(&parse(&holder.json())?, &key)
        {
            return Ok(false);
        }
        let expect = self.snapshot.stored_revision(&key).map_or(Condition::Absent, Condition::At);
        let value = Some(Bytes::from(atoll_meta::json::encode_object(object)));
        let write = Write { key: key.clone(), expect, value, guards: Vec::new(), hint: Some(hint) };
        match self.registry.store.write(write).await {
            Ok(_) => {
                self.taken.push(key);
                Ok(true)
            }
            Err(WriteError::Unmet { .. }) => Ok(false),
            Err(WriteError::Unavailable(cause)) => Err(unavailable(&cause)),
        }
    }

    async fn new_ports(&mut self, new: &mut Value) -> Result<(), Status> {
        let allocates = fields::allocates_node_ports(new);
        let asked = new["spec"]["ports"].as_array().cloned().unwrap_or_default();
        let mut given: Vec<(i64, i64)> = Vec::new();
        for (index, port) in asked.iter().enumerate() {
            let (own, wanted) = (number(port, "port"), number(port, "nodePort"));
            if wanted == 0 && !allocates {
                continue;
            }
            // Ports of the same number, as for TCP and UDP, share their node port.
            let shared = given.iter().find(|(port, _)| *port == own).map(|(_, node)| *node);
            let node = match shared {
                Some(node) if wanted == 0 || wanted == node => node,
                Some(_) => {
                    self.this_port(new, index, wanted).await?;
                    wanted
                }
                None => {
                    let requested = asked.iter().filter(|other| number(other, "port") == own);
                    let requested = requested.map(|other| number(other, "nodePort")).find(|node| *node != 0);
                    let node = match requested {
                        Some(node) => {
                            self.this_port(new, index, node).await?;
                            node
                        }
                        None => self.any_port().await?,
                    };
                    given.push((own, node));
                    node
                }
            };
            new["spec"]["ports"][index]["nodePort"] = node.into();
        }
        Ok(())
    }

    async fn changed_ports(&mut self, new: &mut Value, old: &Value) -> Result<(), Status> {
        let before = if fields::has_node_ports(old) { node_ports(old) } else { Vec::new() };
        let allocates = fields::allocates_node_ports(new);
        let mut given: Vec<i64> = Vec::new();
        let asked = new["spec"]["ports"].as_array().cloned().unwrap_or_default();
        for (index, port) in asked.iter().enumerate() {
            match number(port, "nodePort") {
                0 if !allocates => {}
                0 => new["spec"]["ports"][index]["nodePort"] = self.any_port().await?.into(),
                wanted if before.contains(&wanted) || given.contains(&wanted) => {}
                wanted => {
                    self.this_port(new, index, wanted).await?;
                    given.push(wanted);
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
            // Nothing is taken, so the number says nothing.
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

    /// The reason if the port cannot be had.
    async fn take_port(&mut self, port: i64) -> Result<Result<(), String>, Status> {
        let key = port_key(self.place, port);
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
        let holder = self.holder("NodePort", PORTS.0, &port.to_string(), self.place.name)?;
        let taken = self.take(key, &holder, Facts::none()).await?;
        Ok(if taken { Ok(()) } else { Err(IN_USE.into()) })
    }
}

/// Seconds after which an address without its Service was left behind by a write that never ended.
const LEFT_BEHIND: i64 = 60;

fn invalid(service: &Value, errors: Vec<FieldError>) -> Status {
    Status::invalid("", "Service", object::name(service), errors)
}

fn address_key(place: &Place<'_>, address: &str) -> Key {
    Key::object("networking.k8s.io", "ipaddresses", place.workspace, "", address)
}

fn port_key(place: &Place<'_>, port: i64) -> Key {
    Key::object(PORTS.0, PORTS.1, place.workspace, "", &port.to_string())
}
