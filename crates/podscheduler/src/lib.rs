//! Which node a Pod goes to, as kube-scheduler would have it.
//!
//! ```text
//!   API ── changes ──► run ──► Scheduler, one for each workspace with nodes or Pods
//!    ▲                  │        ├─ Queue: who is tried next, who waits for what
//!    │                  │        └─ Fleet: usage of nodes, tallies of Pods, wishes of neighbours
//!    │                  ▼             │
//!    └─ bind, status, events          └─ choose ─┬─ Cycle::check   may it be there?  (Refusal)
//!                       ▲                        ├─ score          is it good there?
//!                       └─ Decision ◄────────────┴─ preemption     who would have to go?
//! ```
//!
//! A [`Fleet`] is kept up to date change by change and holds everything in a compiled form: what a Pod asks for is worked
//! out once and shared by all Pods that ask for the same, and how many Pods of some kind are on each node is counted as they
//! come and go. Choosing is a pure function of the fleet, the Pod and a source of random numbers for ties; only [`run()`]
//! knows of an API and of time. What is refused is refused in upstream's words.

mod budgets;
mod choose;
mod cycle;
mod fleet;
mod labels;
mod node;
mod node_affinity;
mod pod;
mod pod_affinity;
mod preemption;
mod queue;
mod refusal;
mod resources;
mod run;
mod scheduler;
mod score;
mod spread;
mod storage;
mod taints;
mod workloads;

pub use choose::{Choice, Random, Unschedulable};
pub use fleet::{Fleet, PodKey};
pub use node::Node;
pub use pod::{Compiler, Demand, Pod, is_finished};
pub use preemption::Preemption;
pub use queue::{Event, Queue};
pub use refusal::Plugin;
pub use run::{Options, run};
pub use scheduler::{Decision, Scheduler};
pub use storage::Bindings;
