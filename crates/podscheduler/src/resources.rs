//! Resource amounts in the units of the scheduler.

// upstream: pkg/scheduler/framework/types.go
// upstream: pkg/scheduler/util/utils.go

use std::sync::Arc;

use atoll_meta::names;
use atoll_quota::Amounts;

const REQUESTS: &str = "requests.";

/// Requests of a Pod, requests on a node, or allocatable resources of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    pub milli_cpu: i64,
    pub memory: i64,
    pub storage: i64,
    /// Huge pages, extended resources and other scalar resources, sorted by name.
    pub scalars: Vec<(Arc<str>, i64)>,
}

impl Resources {
    /// Converts amounts to whole units, and to millicores for cpu.
    pub fn of(amounts: &Amounts) -> Self {
        let mut resources = Resources::default();
        for (name, amount) in amounts.iter() {
            match name {
                "cpu" => resources.milli_cpu = amount.millis(),
                "memory" => resources.memory = amount.units(),
                "ephemeral-storage" => resources.storage = amount.units(),
                _ if is_scalar(name) => resources.scalars.push((name.into(), amount.units())),
                _ => {}
            }
        }
        resources
    }

    pub fn scalar(&self, name: &str) -> i64 {
        match self.scalars.binary_search_by(|(own, _)| (**own).cmp(name)) {
            Ok(index) => self.scalars[index].1,
            Err(_) => 0,
        }
    }

    pub fn add(&mut self, other: &Resources) {
        self.change(other, 1);
    }

    pub fn subtract(&mut self, other: &Resources) {
        self.change(other, -1);
    }

    fn change(&mut self, other: &Resources, sign: i64) {
        let change = |own: &mut i64, amount: i64| *own = own.saturating_add(sign * amount);
        change(&mut self.milli_cpu, other.milli_cpu);
        change(&mut self.memory, other.memory);
        change(&mut self.storage, other.storage);
        for (name, amount) in &other.scalars {
            match self.scalars.binary_search_by(|(own, _)| own.cmp(name)) {
                Ok(index) => change(&mut self.scalars[index].1, *amount),
                Err(index) => self.scalars.insert(index, (name.clone(), sign * amount)),
            }
        }
    }

    /// Whether there are no requests.
    pub fn is_nothing(&self) -> bool {
        self.milli_cpu == 0 && self.memory == 0 && self.storage == 0 && self.scalars.is_empty()
    }
}

/// Whether a resource is a scalar resource (`IsScalarResourceName`).
fn is_scalar(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    let extended = !native
        && !name.starts_with(REQUESTS)
        && names::qualified_name(&format!("{REQUESTS}{name}")).is_empty();
    extended
        || name.starts_with("hugepages-")
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-")
}
