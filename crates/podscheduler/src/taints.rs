//! Taints of nodes and tolerations of Pods.

// upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go
// upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go

use atoll_meta::views::{NodeView, PodSpecView, TaintView, TolerationView};

/// Effect of a taint.
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

    /// Whether it excludes Pods, instead of only lowering the score.
    fn is_hard(self) -> bool {
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
    /// Returns the taint of an unschedulable node.
    pub fn unschedulable() -> Self {
        let key = "node.kubernetes.io/unschedulable".into();
        Taint { key, value: Box::default(), effect: Effect::NoSchedule }
    }

    fn of(taint: TaintView<'_>) -> Option<Self> {
        Some(Taint {
            key: taint.key().into(),
            value: taint.value().into(),
            effect: Effect::of(taint.effect())?,
        })
    }

    /// Reads the taints of a node.
    pub fn all_of(node: NodeView<'_>) -> Box<[Taint]> {
        node.taints().filter_map(Taint::of).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    key: Box<str>,
    /// Required value of the taint; `None` for any.
    value: Option<Box<str>>,
    effect: Option<Effect>,
}

impl Toleration {
    fn of(toleration: TolerationView<'_>) -> Option<Self> {
        let value = match toleration.operator() {
            "Equal" => Some(toleration.value().into()),
            "Exists" => None,
            // Numeric comparisons are behind a disabled feature gate: they tolerate nothing.
            _ => return None,
        };
        let effect = match toleration.effect() {
            "" => None,
            effect => Some(Effect::of(effect)?),
        };
        Some(Toleration { key: toleration.key().into(), value, effect })
    }

    /// Reads the tolerations of a Pod.
    pub fn all_of(spec: PodSpecView<'_>) -> Box<[Toleration]> {
        spec.tolerations().filter_map(Toleration::of).collect()
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

/// Whether a Pod tolerates all taints that exclude Pods.
pub fn are_tolerated(tolerations: &[Toleration], taints: &[Taint]) -> bool {
    taints.iter().all(|taint| !taint.effect.is_hard() || tolerates(tolerations, taint))
}

/// Returns the number of `PreferNoSchedule` taints that a Pod does not tolerate.
pub fn intolerable_taints(tolerations: &[Toleration], taints: &[Taint]) -> i64 {
    let mut count = 0;
    for taint in taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule) {
        count += i64::from(!tolerates(tolerations, taint));
    }
    count
}
