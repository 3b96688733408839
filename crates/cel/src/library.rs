//! Declarations of library functions, and the list of libraries.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/environment/base.go

mod address;
mod arguments;
mod authorizer;
mod cidr;
mod costs;
mod decimal;
mod format;
mod go_url;
mod ip;
mod lists;
mod named;
mod quantity;
mod regex;
mod semver;
mod sequences;
mod sets;
mod strings;
pub(crate) mod template;
mod text;
mod urls;
mod version;

pub(crate) use costs::find as find_cost;
pub(crate) use regex::{Search, search_all, search_first};

use crate::cost::{CallEstimate, Node, Sizes};
use crate::error::Error;
use crate::value::Value;

/// A library of functions.
#[derive(Debug)]
pub struct Library {
    /// Name of the library.
    pub name: &'static str,
    /// Functions. A function may have overloads in several libraries.
    pub functions: &'static [Function],
    /// Names of custom types that expressions may refer to, such as `net.IP`.
    pub types: &'static [&'static str],
}

/// A function.
#[derive(Debug)]
pub struct Function {
    /// Name: `quantity`, or with a namespace `ip.isCanonical`.
    pub name: &'static str,
    /// Overloads in the order in which they are tried.
    pub overloads: &'static [Overload],
}

/// Implementation of an overload. The arguments match the signature, the receiver first.
pub type Implementation = for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, Error>;

/// Runtime cost of a call from its arguments (null for a failed one) and its result (`None` if it failed).
pub type RuntimeCost = fn(&[Value<'_>], Option<&Value<'_>>) -> u64;

/// Cost estimate of a call from its receiver and arguments. `None` means 1.
pub type Estimate = fn(&Sizes<'_>, Option<&Node<'_>>, &[Node<'_>]) -> Option<CallEstimate>;

/// One overload of a function.
#[derive(Debug)]
pub struct Overload {
    /// Upstream's ID, unique among all overloads.
    pub id: &'static str,
    /// Signature; see [`crate::signature`].
    pub signature: &'static str,
    /// Implementation.
    pub call: Implementation,
    /// Runtime cost. `None` means 1.
    pub cost: Option<RuntimeCost>,
    /// Cost estimate.
    pub estimate: Option<Estimate>,
    /// Runtime cost if the overload is only determined at run time. `None` means the same as `cost`.
    pub ambiguous: Option<RuntimeCost>,
    /// Whether the overload checks the types of its arguments itself and is called with any values.
    pub unguarded: bool,
}

impl Overload {
    /// Creates an overload that costs 1.
    pub const fn new(id: &'static str, signature: &'static str, call: Implementation) -> Overload {
        Overload { id, signature, call, cost: None, estimate: None, ambiguous: None, unguarded: false }
    }

    /// Makes the overload check the types of its arguments itself.
    pub const fn unguarded(mut self) -> Overload {
        self.unguarded = true;
        self
    }

    /// Sets the cost for overloads that are only determined at run time.
    pub const fn ambiguously(mut self, cost: RuntimeCost) -> Overload {
        self.ambiguous = Some(cost);
        self
    }

    /// Sets the runtime cost and the estimate.
    pub const fn costs(mut self, cost: RuntimeCost, estimate: Estimate) -> Overload {
        self.cost = Some(cost);
        self.estimate = Some(estimate);
        self
    }
}

/// All libraries besides the standard functions.
pub static LIBRARIES: &[&Library] = &[
    &urls::LIBRARY,
    &regex::LIBRARY,
    &lists::LIBRARY,
    &authorizer::LIBRARY,
    &quantity::LIBRARY,
    &strings::LIBRARY,
    &sets::LIBRARY,
    &ip::LIBRARY,
    &cidr::LIBRARY,
    &format::LIBRARY,
    &semver::LIBRARY,
    &sequences::LIBRARY,
];

#[cfg(test)]
mod tests;
