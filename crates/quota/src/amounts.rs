//! Lists of resources with amounts.

// upstream: staging/src/k8s.io/apiserver/pkg/quota/v1/resources.go

use std::collections::BTreeMap;

use atoll_meta::quantity::{Format, Quantity};
use serde_json::{Map, Value};

/// Amounts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<String, Quantity>);

impl Amounts {
    /// Reads an object such as `{"cpu": "100m"}`. Skips invalid amounts.
    pub fn read(value: &Value) -> Self {
        let entries = value.as_object().into_iter().flatten();
        Amounts(
            entries
                .filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(amount.as_str()?).ok()?)))
                .collect(),
        )
    }

    pub fn to_json(&self) -> Value {
        let entries = self.0.iter().map(|(name, amount)| (name.clone(), amount.to_string().into()));
        Value::Object(entries.collect::<Map<_, _>>())
    }

    pub fn get(&self, name: &str) -> Option<&Quantity> {
        self.0.get(name)
    }

    pub fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    /// Sets a count.
    pub fn set_count(&mut self, name: impl Into<String>, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.set(name, Quantity::new(count, Format::DecimalSi));
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), amount))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn add(&mut self, other: &Amounts) {
        for (name, amount) in &other.0 {
            self.add_one(name, amount);
        }
    }

    pub fn add_one(&mut self, name: &str, amount: &Quantity) {
        match self.0.get_mut(name) {
            Some(own) => own.add(amount),
            None => self.set(name, amount.clone()),
        }
    }

    /// Adds the amounts whose names are missing.
    pub fn fill(&mut self, missing: &Amounts) {
        for (name, amount) in &missing.0 {
            self.0.entry(name.clone()).or_insert_with(|| amount.clone());
        }
    }

    /// Subtracts the amounts of names that both have; the result is at least zero.
    pub fn subtract(&mut self, other: &Amounts) {
        for (name, amount) in &other.0 {
            if let Some(own) = self.0.get_mut(name) {
                own.subtract(amount);
                if own.is_negative() {
                    *own = zero();
                }
            }
        }
    }

    /// Sets each amount to the higher one.
    pub fn raise_to(&mut self, other: &Amounts) {
        for (name, amount) in &other.0 {
            if self.0.get(name).is_none_or(|own| amount > own) {
                self.set(name.as_str(), amount.clone());
            }
        }
    }

    /// Returns the positive differences to `before`.
    pub fn increase_from(&self, before: &Amounts) -> Amounts {
        let mut increase = self.clone();
        for (name, amount) in &before.0 {
            if let Some(own) = increase.0.get_mut(name) {
                own.subtract(amount);
            }
        }
        increase.0.retain(|_, amount| !amount.is_zero() && !amount.is_negative());
        increase
    }

    /// Removes zero amounts.
    pub fn without_zeros(mut self) -> Amounts {
        self.0.retain(|_, amount| !amount.is_zero());
        self
    }

    /// Keeps the names that match.
    pub fn only(&self, wanted: impl Fn(&str) -> bool) -> Amounts {
        let kept = self.0.iter().filter(|(name, _)| wanted(name));
        Amounts(kept.map(|(name, amount)| (name.clone(), amount.clone())).collect())
    }

    /// Formats amounts as `cpu=1,pods=2`.
    pub fn print(&self) -> String {
        let parts: Vec<String> = self.0.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        parts.join(",")
    }
}

/// Returns a zero quantity.
pub fn zero() -> Quantity {
    Quantity::new(0, Format::DecimalSi)
}
