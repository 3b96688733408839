//! Amounts of resources: the requests of a replica, and the free resources of a node.

use std::sync::Arc;

use atoll_meta::quantity::Quantity;
use serde_json::Value;

/// Amounts in the units of the ledger: thousandths of a core, bytes, and whole units of everything else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    pub milli_cpu: i64,
    pub memory: i64,
    /// Ephemeral storage.
    pub storage: i64,
    pub pods: i64,
    /// Extended resources and huge pages, sorted by name.
    pub scalars: Vec<(Arc<str>, i64)>,
}

/// Most extended resources that count. Reports contain fewer.
const MAX_SCALARS: usize = 64;

/// Memory that usually comes with a thousandth of a core, which makes amounts of both comparable.
const MEMORY_PER_MILLI_CPU: i64 = 4 << 20;
/// Cores, in thousandths, that a pod usually needs.
const MILLI_CPU_PER_POD: i64 = 100;

impl Resources {
    /// Reads an object of quantities by resource; unknown and broken entries are ignored.
    pub fn of(quantities: &Value) -> Resources {
        let mut resources = Resources::default();
        for (name, amount) in quantities.as_object().into_iter().flatten() {
            let parsed = match amount {
                Value::String(text) => Quantity::parse(text).ok(),
                Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
                _ => None,
            };
            if let Some(quantity) = parsed {
                resources.set(name, &quantity);
            }
        }
        resources
    }

    /// Sets the quantity of one resource.
    pub fn set(&mut self, name: &str, quantity: &Quantity) {
        self.set_amount(name, if name == "cpu" { quantity.millis() } else { quantity.units() });
    }

    /// Sets the amount of one resource, in the units of the ledger.
    pub fn set_amount(&mut self, name: &str, amount: i64) {
        match name {
            "cpu" => self.milli_cpu = amount,
            "memory" => self.memory = amount,
            "ephemeral-storage" => self.storage = amount,
            "pods" => self.pods = amount,
            _ => self.set_scalar(name, amount),
        }
    }

    fn set_scalar(&mut self, name: &str, amount: i64) {
        match self.scalars.binary_search_by(|(own, _)| (**own).cmp(name)) {
            Ok(at) => self.scalars[at].1 = amount,
            Err(at) => self.insert_scalar(at, name.into(), amount),
        }
    }

    fn insert_scalar(&mut self, at: usize, name: Arc<str>, amount: i64) {
        if self.scalars.len() < MAX_SCALARS {
            self.scalars.insert(at, (name, amount));
        }
    }

    pub fn scalar(&self, name: &str) -> i64 {
        let found = self.scalars.binary_search_by(|(own, _)| (**own).cmp(name));
        found.map_or(0, |at| self.scalars[at].1)
    }

    /// Adds `times` the other amounts; negative `times` subtract.
    pub fn add(&mut self, other: &Resources, times: i64) {
        let change = |own: &mut i64, amount: i64| *own = own.saturating_add(amount.saturating_mul(times));
        change(&mut self.milli_cpu, other.milli_cpu);
        change(&mut self.memory, other.memory);
        change(&mut self.storage, other.storage);
        change(&mut self.pods, other.pods);
        for (name, amount) in &other.scalars {
            match self.scalars.binary_search_by(|(own, _)| own.cmp(name)) {
                Ok(at) => change(&mut self.scalars[at].1, *amount),
                Err(at) => self.insert_scalar(at, name.clone(), amount.saturating_mul(times)),
            }
        }
    }

    /// Raises each amount to at least the other's.
    pub fn raise_to(&mut self, other: &Resources) {
        self.milli_cpu = self.milli_cpu.max(other.milli_cpu);
        self.memory = self.memory.max(other.memory);
        self.storage = self.storage.max(other.storage);
        self.pods = self.pods.max(other.pods);
        for (name, amount) in &other.scalars {
            let most = self.scalar(name).max(*amount);
            self.set_scalar(name, most);
        }
    }

    /// Lowers each amount to at most the other's.
    pub fn lower_to(&mut self, other: &Resources) {
        self.milli_cpu = self.milli_cpu.min(other.milli_cpu);
        self.memory = self.memory.min(other.memory);
        self.storage = self.storage.min(other.storage);
        self.pods = self.pods.min(other.pods);
        for (name, amount) in &mut self.scalars {
            *amount = (*amount).min(other.scalar(name));
        }
    }

    /// The number of times that a request fits; `i64::MAX` for an empty request.
    pub fn slots(&self, request: &Resources) -> i64 {
        let times = |free: i64, asked: i64| if asked <= 0 { i64::MAX } else { free.max(0) / asked };
        let scalars = request.scalars.iter().map(|(name, asked)| times(self.scalar(name), *asked));
        times(self.milli_cpu, request.milli_cpu)
            .min(times(self.memory, request.memory))
            .min(times(self.storage, request.storage))
            .min(times(self.pods, request.pods))
            .min(scalars.min().unwrap_or(i64::MAX))
    }

    /// The number of times that a request fits; negative if it would have to be taken away as often.
    pub fn balance(&self, request: &Resources) -> i64 {
        let times = |free: i64, asked: i64| if asked <= 0 { i64::MAX } else { free.div_euclid(asked) };
        let scalars = request.scalars.iter().map(|(name, asked)| times(self.scalar(name), *asked));
        times(self.milli_cpu, request.milli_cpu)
            .min(times(self.memory, request.memory))
            .min(times(self.storage, request.storage))
            .min(times(self.pods, request.pods))
            .min(scalars.min().unwrap_or(i64::MAX))
    }

    /// Whether a request fits.
    pub fn has(&self, request: &Resources) -> bool {
        let has = |free: i64, asked: i64| asked <= 0 || free >= asked;
        has(self.milli_cpu, request.milli_cpu)
            && has(self.memory, request.memory)
            && has(self.storage, request.storage)
            && has(self.pods, request.pods)
            && request.scalars.iter().all(|(name, asked)| has(self.scalar(name), *asked))
    }

    /// Names of the resources of which less is free than one request.
    pub fn missing<'a>(&self, request: &'a Resources) -> Vec<&'a str> {
        let all = request.amounts();
        all.into_iter().filter(|(name, asked)| *asked > self.amount(name)).map(|(name, _)| name).collect()
    }

    /// The amount of a resource, in the units of the ledger.
    pub fn amount(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.milli_cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.storage,
            "pods" => self.pods,
            _ => self.scalar(name),
        }
    }

    /// All amounts that are not zero, by name.
    pub fn amounts(&self) -> Vec<(&str, i64)> {
        let fixed = [
            ("cpu", self.milli_cpu),
            ("memory", self.memory),
            ("ephemeral-storage", self.storage),
            ("pods", self.pods),
        ];
        let scalars = self.scalars.iter().map(|(name, amount)| (&**name, *amount));
        fixed.into_iter().chain(scalars).filter(|(_, amount)| *amount != 0).collect()
    }

    /// One number for the size of a request, in the unit of [`Resources::room`].
    pub fn size(&self) -> i64 {
        let memory = self.memory / MEMORY_PER_MILLI_CPU;
        self.milli_cpu.max(memory).max(self.pods.saturating_mul(MILLI_CPU_PER_POD))
    }

    /// One number for the room that these free amounts leave, in thousandths of a core: the scarcest of
    /// cpu, memory and pods counts, because it is the one that is used up first.
    pub fn room(&self) -> i64 {
        let memory = self.memory / MEMORY_PER_MILLI_CPU;
        self.milli_cpu.min(memory).min(self.pods.saturating_mul(MILLI_CPU_PER_POD)).max(0)
    }
}
