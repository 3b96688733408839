//! Lists of resources, each with an amount.

use std::collections::BTreeMap;

use atoll_meta::quantity::{Format, Quantity};
use serde_json::{Map, Value};

/// Amounts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<String, Quantity>);

impl Amounts {
    /// What an object holds, such as `{"cpu": "100m"}`. What is no amount is passed over.
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

    /// Sets a number of things.
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

    /// Adds what is not there at all.
    pub fn fill(&mut self, missing: &Amounts) {
        for (name, amount) in &missing.0 {
            self.0.entry(name.clone()).or_insert_with(|| amount.clone());
        }
    }

    /// Takes away what is in both; nothing falls below zero.
    pub fn give_back(&mut self, other: &Amounts) {
        for (name, amount) in &other.0 {
            if let Some(own) = self.0.get_mut(name) {
                own.subtract(amount);
                if own.is_negative() {
                    *own = zero();
                }
            }
        }
    }

    /// The greater of both amounts for each name.
    pub fn raise_to(&mut self, other: &Amounts) {
        for (name, amount) in &other.0 {
            if self.0.get(name).is_none_or(|own| amount > own) {
                self.set(name.as_str(), amount.clone());
            }
        }
    }

    /// What this is more than `before`; what is not more is left out.
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

    /// Without what amounts to nothing.
    pub fn without_zeros(mut self) -> Amounts {
        self.0.retain(|_, amount| !amount.is_zero());
        self
    }

    /// Only the names that are wanted.
    pub fn only(&self, wanted: impl Fn(&str) -> bool) -> Amounts {
        let kept = self.0.iter().filter(|(name, _)| wanted(name));
        Amounts(kept.map(|(name, amount)| (name.clone(), amount.clone())).collect())
    }

    /// As people read it: `cpu=1,pods=2`.
    pub fn print(&self) -> String {
        let parts: Vec<String> = self.0.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        parts.join(",")
    }
}

/// Nothing of anything.
pub fn zero() -> Quantity {
    Quantity::new(0, Format::DecimalSi)
}
