//! Taints of nodes, and what Pods put up with.

use serde_json::Value;

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl Effect {
    fn of(text: &str) -> Option<Self> {
        match text {
            "NoSchedule" => Some(Effect::NoSchedule),
            "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
            "NoExecute" => Some(Effect::NoExecute),
            _ => None,
        }
    }

    /// Whether it keeps Pods away, and not only in doubt.
    fn keeps_away(self) -> bool {
        self != Effect::PreferNoSchedule
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    pub key: Box<str>,
    pub value: Box<str>,
    pub effect: Effect,
}

impl Taint {
    /// The taint that goes with a node that takes no more Pods.
    pub fn unschedulable() -> Self {
        let key = "node.kubernetes.io/unschedulable".into();
        Taint { key, value: Box::default(), effect: Effect::NoSchedule }
    }

    fn of(taint: &Value) -> Option<Self> {
        let text = |field: &str| taint[field].as_str().unwrap_or_default();
        Some(Taint {
            key: text("key").into(),
            value: text("value").into(),
            effect: Effect::of(text("effect"))?,
        })
    }

    /// The taints of a node.
    pub fn all_of(node: &Value) -> Box<[Taint]> {
        node["spec"]["taints"].as_array().into_iter().flatten().filter_map(Taint::of).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    key: Box<str>,
    /// The value that the taint must have; nothing if any will do.
    value: Option<Box<str>>,
    effect: Option<Effect>,
}

impl Toleration {
    fn of(toleration: &Value) -> Option<Self> {
        let text = |field: &str| toleration[field].as_str().unwrap_or_default();
        let value = match text("operator") {
            "" | "Equal" => Some(text("value").into()),
            "Exists" => None,
            // Comparisons with numbers are switched off in this version: they tolerate nothing.
            _ => return None,
        };
        let effect = match text("effect") {
            "" => None,
            effect => Some(Effect::of(effect)?),
        };
        Some(Toleration { key: text("key").into(), value, effect })
    }

    /// The tolerations of a Pod.
    pub fn all_of(pod: &Value) -> Box<[Toleration]> {
        pod["spec"]["tolerations"].as_array().into_iter().flatten().filter_map(Toleration::of).collect()
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
    }
}

pub fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(taint))
}

/// Whether none of the taints keeps the Pod away.
pub fn may_enter(tolerations: &[Toleration], taints: &[Taint]) -> bool {
    taints.iter().all(|taint| !taint.effect.keeps_away() || tolerates(tolerations, taint))
}

/// How many taints would rather not have the Pod.
pub fn reservations(tolerations: &[Toleration], taints: &[Taint]) -> i64 {
    let mut count = 0;
    for taint in taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule) {
        count += i64::from(!tolerates(tolerations, taint));
    }
    count
}
