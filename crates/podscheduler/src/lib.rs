//! Selects nodes for Pods like kube-scheduler.
//!
//! ```text
//!   API ── changes ──► run ──► Scheduler, one for each workspace with nodes or Pods
//!    ▲                  │        ├─ Queue: active, backoff and unschedulable Pods
//!    │                  │        └─ NodeIndex: usage of nodes, counts of Pods, affinity of existing Pods
//!    │                  ▼             │
//!    └─ bind, status, events          └─ choose_node ─┬─ Cycle::filter  is the node feasible?  (Refusal)
//!                       ▲                             ├─ score          how good is the node?
//!                       └─ Decision ◄─────────────────┴─ preemption     which Pods must be evicted?
//! ```
//!
//! A [`NodeIndex`] is updated incrementally and holds everything in a compiled form: the requirements of a
//! Pod are computed once and shared by all Pods with the same requirements, and Pods are counted per node as
//! they are assigned and deleted. Choosing a node is a pure function of the index, the Pod and a source of
//! random numbers for ties; only [`run()`] uses an API and time. Messages are those of kube-scheduler.

mod budgets;
mod choose_node;
mod filter;
mod labels;
mod node;
mod node_affinity;
mod node_index;
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

pub use choose_node::{Choice, Random, Unschedulable};
pub use node::Node;
pub use node_index::{NodeIndex, PodKey};
pub use pod::{Compiler, Demand, Pod, is_finished};
pub use preemption::Preemption;
pub use queue::{ClusterEvent, Queue};
pub use refusal::Plugin;
pub use run::{SchedulerOptions, run};
pub use scheduler::{Decision, Scheduler};
pub use storage::Bindings;
