//! How libraries declare functions, and which libraries there are.

mod address;
mod arguments;
mod authorizer;
mod cidr;
mod costs;
mod decimal;
mod format;
mod ip;
mod lists;
mod location;
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

/// Functions that belong together.
#[derive(Debug)]
pub struct Library {
    /// What it is called.
    pub name: &'static str,
    /// What it brings. A function may have overloads in several libraries.
    pub functions: &'static [Function],
    /// The names of types of its own that expressions may mention, such as `net.IP`.
    pub types: &'static [&'static str],
}

/// A function.
#[derive(Debug)]
pub struct Function {
    /// Its name; `quantity`, or with a namespace `ip.isCanonical`.
    pub name: &'static str,
    /// Its forms, in the order in which they are tried.
    pub overloads: &'static [Overload],
}

/// What a function does. It gets arguments that fit its signature, the receiver first.
pub type Implementation = for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, Error>;

/// What a call has cost, by its arguments (null in the place of one that failed) and its result (nothing if it failed).
pub type RuntimeCost = fn(&[Value<'_>], Option<&Value<'_>>) -> u64;

/// What a call may cost, by its receiver and its arguments, and how large its result may be. Nothing if it costs 1.
pub type Estimate = fn(&Sizes<'_>, Option<&Node<'_>>, &[Node<'_>]) -> Option<CallEstimate>;

/// One form of a function.
#[derive(Debug)]
pub struct Overload {
    /// Its name among all overloads of all functions, as upstream has it.
    pub id: &'static str,
    /// What it takes and gives; see [`crate::signature`].
    pub signature: &'static str,
    /// What it does.
    pub call: Implementation,
    /// What a call has cost; 1 without it.
    pub cost: Option<RuntimeCost>,
    /// What a call may cost.
    pub estimate: Option<Estimate>,
    /// What a call has cost where only the values told which of several overloads was meant; as `cost` without it.
    pub ambiguous: Option<RuntimeCost>,
    /// Whether it looks at the types of its arguments itself and is called with whatever comes.
    pub unguarded: bool,
}

impl Overload {
    /// A form that costs 1.
    pub const fn new(id: &'static str, signature: &'static str, call: Implementation) -> Overload {
        Overload { id, signature, call, cost: None, estimate: None, ambiguous: None, unguarded: false }
    }

    /// The same, but it looks at the types of its arguments itself.
    pub const fn unguarded(mut self) -> Overload {
        self.unguarded = true;
        self
    }

    /// The same with another cost where only the values tell which overload is meant.
    pub const fn ambiguously(mut self, cost: RuntimeCost) -> Overload {
        self.ambiguous = Some(cost);
        self
    }

    /// The same with costs.
    pub const fn costs(mut self, cost: RuntimeCost, estimate: Estimate) -> Overload {
        self.cost = Some(cost);
        self.estimate = Some(estimate);
        self
    }
}

/// All libraries beside the language's own functions.
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
