//! Selection of the policy that applies to an object.

use std::cmp::Reverse;

use atoll_fleet::workloads::is_workload_kind;
use atoll_meta::object;
use serde_json::{Map, Value};

use super::{ObjectRule, Policy, PolicyKind};

/// An object, as policies see it.
#[derive(Clone, Copy, Debug)]
pub struct PolicyTarget<'a> {
    pub group: &'a str,
    pub kind: &'a str,
    /// Empty for a cluster-scoped object.
    pub namespace: &'a str,
    pub name: &'a str,
    pub labels: Option<&'a Map<String, Value>>,
    pub namespace_labels: Option<&'a Map<String, Value>>,
    /// Whether rules without a kind apply to it. True for workloads.
    pub is_workload: bool,
    /// Whether its kind is defined in its workspace, so that rules for all custom kinds apply to it.
    pub is_custom: bool,
}

/// The kind of a rule for all custom kinds.
pub const ANY_CUSTOM_KIND: &str = "*";

impl<'a> PolicyTarget<'a> {
    /// Reads an object and the Namespace that it is in.
    pub fn of(object: &'a Value, namespace: Option<&'a Value>) -> PolicyTarget<'a> {
        let (group, _) = object::split_api_version(object::api_version(object)).unwrap_or(("", ""));
        let kind = object::kind(object);
        PolicyTarget {
            group,
            kind,
            namespace: object::namespace(object),
            name: object::name(object),
            labels: object::label_map(object),
            namespace_labels: namespace.and_then(object::label_map),
            is_workload: is_workload_kind(group, kind),
            is_custom: false,
        }
    }
}

/// The specificity of a policy for an object; the greatest wins. Fields are in the order of their importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity {
    /// A policy of the namespace, rather than of a workspace.
    pub of_namespace: bool,
    /// The nearest workspace.
    pub distance: Reverse<usize>,
    pub has_name: bool,
    pub has_selector: bool,
    pub has_kind: bool,
    pub has_namespace_selector: bool,
}

impl ObjectRule {
    fn matches(&self, target: &PolicyTarget<'_>) -> bool {
        let is = |wanted: &Option<String>, actual: &str| wanted.as_deref().is_none_or(|own| own == actual);
        let is_kind = match self.kind.as_deref() {
            Some(ANY_CUSTOM_KIND) => target.is_custom,
            Some(kind) => kind == target.kind,
            None => target.is_workload,
        };
        is_kind
            && is(&self.group, target.group)
            && is(&self.name, target.name)
            && self.selector.as_ref().is_none_or(|selector| selector.matches_labels(&target.labels))
    }
}

impl Policy {
    /// Whether the policy applies to an object. Which of several does, [`select`] decides.
    pub fn matches(&self, target: &PolicyTarget<'_>) -> bool {
        self.specificity(target).is_some()
    }

    /// Returns how closely the policy fits an object, by its best rule; `None` if it does not apply.
    pub fn specificity(&self, target: &PolicyTarget<'_>) -> Option<Specificity> {
        let of_namespace = self.kind == PolicyKind::PlacementPolicy;
        let is_in_scope = match of_namespace {
            true => self.distance == 0 && self.namespace == target.namespace,
            // A selector of namespaces cannot mean a cluster-scoped object.
            false => {
                self.namespaces.is_empty()
                    || (!target.namespace.is_empty()
                        && self.namespaces.matches_labels(&target.namespace_labels))
            }
        };
        if !is_in_scope {
            return None;
        }
        let specificity = |rule: &ObjectRule| Specificity {
            of_namespace,
            distance: Reverse(self.distance),
            has_name: rule.name.is_some(),
            has_selector: rule.selector.as_ref().is_some_and(|selector| !selector.is_empty()),
            has_kind: rule.kind.as_deref().is_some_and(|kind| kind != ANY_CUSTOM_KIND),
            has_namespace_selector: !self.namespaces.is_empty(),
        };
        if self.objects.is_empty() {
            return target.is_workload.then(|| specificity(&ObjectRule::default()));
        }
        self.objects.iter().filter(|rule| rule.matches(target)).map(specificity).max()
    }
}

/// The reason why a policy that matches does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The winner is of the namespace.
    OfWorkspace,
    /// The winner is of a nearer workspace.
    OfParent,
    /// The winner names the object.
    NoName,
    /// The winner selects the object by its labels.
    NoSelector,
    /// The winner names the kind.
    NoKind,
    /// The winner selects namespaces.
    NoNamespaceSelector,
    /// Both fit equally well, and the winner is older.
    Newer,
    /// Both fit equally well and are equally old, and the winner's name comes first.
    LaterName,
}

/// A policy that matches an object and does not apply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loser<'a> {
    pub policy: &'a Policy,
    pub loss: Loss,
}

/// The policies of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicySelection<'a> {
    pub winner: Option<&'a Policy>,
    /// In order: the first of them would apply if there were no winner.
    pub losers: Vec<Loser<'a>>,
}

/// Selects the policy that applies to an object: the most specific one, of equals the oldest, of these the
/// first by name.
pub fn select<'a>(
    policies: impl IntoIterator<Item = &'a Policy>,
    target: &PolicyTarget<'_>,
) -> PolicySelection<'a> {
    let mut matching: Vec<(Specificity, &Policy)> =
        policies.into_iter().filter_map(|policy| Some((policy.specificity(target)?, policy))).collect();
    matching.sort_by(|(one, first), (other, second)| {
        let by_age = (&first.created, &first.name).cmp(&(&second.created, &second.name));
        other.cmp(one).then(by_age)
    });
    let Some((best, winner)) = matching.first().copied() else { return PolicySelection::default() };
    let lose =
        |(fit, policy): &(Specificity, &'a Policy)| Loser { policy, loss: loss(best, *fit, winner, policy) };
    PolicySelection { winner: Some(winner), losers: matching.iter().skip(1).map(lose).collect() }
}

fn loss(best: Specificity, fit: Specificity, winner: &Policy, policy: &Policy) -> Loss {
    [
        (best.of_namespace != fit.of_namespace, Loss::OfWorkspace),
        (best.distance != fit.distance, Loss::OfParent),
        (best.has_name != fit.has_name, Loss::NoName),
        (best.has_selector != fit.has_selector, Loss::NoSelector),
        (best.has_kind != fit.has_kind, Loss::NoKind),
        (best.has_namespace_selector != fit.has_namespace_selector, Loss::NoNamespaceSelector),
        (winner.created != policy.created, Loss::Newer),
    ]
    .into_iter()
    .find_map(|(differs, loss)| differs.then_some(loss))
    .unwrap_or(Loss::LaterName)
}

impl Loser<'_> {
    /// Explains the choice, such as `clusterplacementpolicy/all: placementpolicy/web is of the namespace`.
    pub fn why(&self, winner: &Policy) -> String {
        let (own, first) = (self.policy.reference(), winner.reference());
        let why = match self.loss {
            Loss::OfWorkspace => format!("{first} is of the namespace"),
            Loss::OfParent => format!("{first} is of a nearer workspace"),
            Loss::NoName => format!("{first} names the object"),
            Loss::NoSelector => format!("{first} selects the object by its labels"),
            Loss::NoKind => format!("{first} names the kind"),
            Loss::NoNamespaceSelector => format!("{first} selects the namespace by its labels"),
            Loss::Newer => format!("as specific as {first}, which is older"),
            Loss::LaterName => format!("as specific as {first} and as old, which comes first by name"),
        };
        format!("{own}: {why}")
    }
}
