//! Memory budgets of servers, arranged in a hierarchy.
//!
//! ```text
//!   cluster of a tenant ─► its top-level workspace ─► all tenants ─► the process
//!   cluster of root ───────────────────────────────────────────────► the process
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use atoll_meta::Status;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::{CLUSTER, is_too_large};
use crate::connect_error::{self, Cause};

/// Limit of all clusters in a top-level workspace and its descendants.
pub const WORKSPACE: usize = 512 << 20;
/// Limit of all clusters of tenants; the rest is reserved for clusters of the root workspace.
pub const TENANTS: usize = 3 << 30;
/// Limit of all clusters of a process.
pub const PROCESS: usize = 4 << 30;

/// Pages of lists that are read from one cluster concurrently.
const PAGES: usize = 2;
/// How long a refusal is reported. A refused client retries within ten seconds.
const REFUSAL_REPORTED_FOR: Duration = Duration::from_secs(60);

/// Memory limit of a server, and its current usage.
pub struct Budget {
    limit: usize,
    /// Scope of the budget, for messages.
    scope: BudgetScope,
    /// Parent budget, which is charged as well.
    above: Option<Arc<Budget>>,
    used: AtomicUsize,
    refusals: AtomicU64,
    last: Mutex<Option<(Cause, String, Instant)>>,
    pages: Semaphore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BudgetScope {
    Cluster,
    Workspace,
    Tenants,
    Process,
}

/// A budget that is exceeded, and its usage.
struct BudgetExceeded<'b> {
    budget: &'b Budget,
    used: usize,
}

impl BudgetExceeded<'_> {
    fn describe(&self, bytes: usize) -> String {
        let mebibytes = |bytes: usize| bytes.div_ceil(1 << 20);
        let (used, limit, more) = (mebibytes(self.used), mebibytes(self.budget.limit), mebibytes(bytes));
        let together = match self.budget.scope {
            BudgetScope::Cluster => {
                return format!(
                    "{used} MiB are in use, {limit} MiB are allowed, and the last response would take {more} MiB more"
                );
            }
            BudgetScope::Workspace => "all clusters of its top-level workspace",
            BudgetScope::Tenants => "all clusters that are not registered in the root workspace",
            BudgetScope::Process => "all clusters",
        };
        format!(
            "{together} together use {used} MiB, {limit} MiB are allowed, and the last response would take {more} MiB more"
        )
    }
}

impl Budget {
    /// Creates a budget without a parent.
    pub fn new(limit: usize) -> Arc<Budget> {
        Budget::below(None, limit, BudgetScope::Cluster)
    }

    fn below(above: Option<Arc<Budget>>, limit: usize, scope: BudgetScope) -> Arc<Budget> {
        Arc::new(Budget {
            limit,
            scope,
            above,
            used: AtomicUsize::new(0),
            refusals: AtomicU64::new(0),
            last: Mutex::default(),
            pages: Semaphore::new(PAGES),
        })
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Number of refusals because of an oversized response or an exceeded budget.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Returns the last refusal, if it was recent.
    pub fn last_refusal(&self) -> Option<(Cause, String)> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = last.as_ref().filter(|(_, _, at)| at.elapsed() < REFUSAL_REPORTED_FOR);
        recent.map(|(cause, what, _)| (*cause, what.clone()))
    }

    /// Records a response that was too large even at the smallest page size.
    pub fn note(&self, status: &Status) {
        if is_too_large(status) {
            self.refuse(Cause::AnswerTooLarge, status.message());
        }
    }

    fn refuse(&self, cause: Cause, what: &str) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        let last = (cause, what.to_string(), Instant::now());
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
    }

    /// Waits for a permit to read a page of a list.
    pub async fn page(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.pages.acquire().await.ok()
    }

    fn take(&self, bytes: usize) -> Result<(), Status> {
        self.reserve(bytes).map_err(|full| {
            let what = full.describe(bytes);
            self.refuse(Cause::MemoryBudgetExceeded, &what);
            connect_error::unavailable(Cause::MemoryBudgetExceeded, &what)
        })
    }

    /// Charges bytes to this budget and all its ancestors, or to none.
    fn reserve(&self, bytes: usize) -> Result<(), BudgetExceeded<'_>> {
        let grown = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        let counted = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        counted.map_err(|used| BudgetExceeded { budget: self, used })?;
        let above = self.above.as_ref().map_or(Ok(()), |above| above.reserve(bytes));
        above.inspect_err(|_| {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        })
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(above) = &self.above {
            above.give_back(bytes);
        }
    }
}

/// Memory charged to a budget; released when dropped.
#[derive(Default)]
pub struct Charge {
    budget: Option<Arc<Budget>>,
    bytes: usize,
}

impl Charge {
    /// Creates an empty charge. Without a budget there is no limit.
    pub fn new(budget: Option<Arc<Budget>>) -> Charge {
        Charge { budget, bytes: 0 }
    }

    /// Creates an empty charge of the same budget.
    pub(crate) fn another(&self) -> Charge {
        Charge::new(self.budget.clone())
    }

    /// Whether there is a budget, so that the server is not trusted.
    pub(crate) fn is_limited(&self) -> bool {
        self.budget.is_some()
    }

    pub fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        if let Some(budget) = &self.budget {
            budget.take(bytes)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        if let Some(budget) = &self.budget {
            budget.give_back(bytes);
        }
    }

    /// Changes the amount.
    pub fn set(&mut self, bytes: usize) -> Result<(), Status> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => {
                self.shrink(self.bytes - bytes);
                Ok(())
            }
        }
    }

    /// Records an oversized response.
    pub(crate) fn note_too_large(&self, what: &str) {
        if let Some(budget) = &self.budget {
            budget.refuse(Cause::AnswerTooLarge, what);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

/// The budgets of all clusters of a process, by workspace and name.
pub struct Budgets {
    process: Arc<Budget>,
    tenants: Arc<Budget>,
    known: Mutex<OpenBudgets>,
}

#[derive(Default)]
struct OpenBudgets {
    clusters: BTreeMap<(String, String), Weak<Budget>>,
    /// Budgets by top-level workspace id.
    workspaces: BTreeMap<String, Weak<Budget>>,
}

/// Current memory usage of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetUsage {
    pub workspace: String,
    pub cluster: String,
    pub bytes: usize,
    pub refusals: u64,
}

impl Default for Budgets {
    fn default() -> Budgets {
        let process = Budget::below(None, PROCESS, BudgetScope::Process);
        let tenants = Budget::below(Some(process.clone()), TENANTS, BudgetScope::Tenants);
        Budgets { process, tenants, known: Mutex::default() }
    }
}

impl Budgets {
    /// Creates the budget of a cluster; it is listed while it is in use. `top` is the id of the top-level
    /// workspace in or below which the cluster is registered; `None` for a cluster of the root workspace.
    pub fn open(&self, workspace: &str, cluster: &str, top: Option<&str>) -> Arc<Budget> {
        let mut known = self.known();
        known.clusters.retain(|_, budget| budget.strong_count() > 0);
        known.workspaces.retain(|_, budget| budget.strong_count() > 0);
        let above = top.map(|top| {
            let opened = known.workspaces.get(top).and_then(Weak::upgrade);
            opened.unwrap_or_else(|| {
                let opened = Budget::below(Some(self.tenants.clone()), WORKSPACE, BudgetScope::Workspace);
                known.workspaces.insert(top.into(), Arc::downgrade(&opened));
                opened
            })
        });
        let above = above.unwrap_or_else(|| self.process.clone());
        let budget = Budget::below(Some(above), CLUSTER, BudgetScope::Cluster);
        known.clusters.insert((workspace.into(), cluster.into()), Arc::downgrade(&budget));
        budget
    }

    pub fn usage(&self) -> Vec<BudgetUsage> {
        let known = self.known();
        let usage = known.clusters.iter().filter_map(|((workspace, cluster), budget)| {
            let budget = budget.upgrade()?;
            let (workspace, cluster) = (workspace.clone(), cluster.clone());
            Some(BudgetUsage { workspace, cluster, bytes: budget.used(), refusals: budget.refusals() })
        });
        usage.collect()
    }

    fn known(&self) -> MutexGuard<'_, OpenBudgets> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_released() {
        let budget = Budget::new(100);
        let mut first = Charge::new(Some(budget.clone()));
        let mut second = Charge::new(Some(budget.clone()));
        first.grow(60).unwrap();
        second.grow(40).unwrap();
        assert_eq!(budget.last_refusal(), None);
        let refused = second.grow(1).unwrap_err();
        assert_eq!(Cause::of(&refused), Some(Cause::MemoryBudgetExceeded));
        assert_eq!((budget.used(), budget.refusals()), (100, 1));
        assert_eq!(budget.last_refusal().map(|(cause, _)| cause), Some(Cause::MemoryBudgetExceeded));
        first.set(10).unwrap();
        second.shrink(1000);
        assert_eq!(budget.used(), 10);
        second.grow(usize::MAX).unwrap_err();
        drop(first);
        assert_eq!(budget.used(), 0);
        Charge::new(None).grow(usize::MAX).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_reported_for_a_while() {
        let budget = Budget::new(1);
        let status = connect_error::unavailable(Cause::AnswerTooLarge, "a page");
        assert!(is_too_large(&status));
        budget.note(&Status::service_unavailable("busy"));
        assert_eq!(budget.last_refusal(), None);
        budget.note(&status);
        assert_eq!(budget.last_refusal(), Some((Cause::AnswerTooLarge, "a page".into())));
        tokio::time::advance(REFUSAL_REPORTED_FOR).await;
        assert_eq!(budget.last_refusal(), None);
    }

    #[test]
    fn clusters_of_a_workspace_share_its_limit() {
        let budgets = Budgets::default();
        let charged = |workspace: &str, cluster: &str, top: Option<&str>, bytes: usize| {
            let mut charge = Charge::new(Some(budgets.open(workspace, cluster, top)));
            charge.grow(bytes).map(|()| charge)
        };
        // Forty clusters of one tenant, in several workspaces, get the memory of two.
        let kept: Vec<Charge> = (0..40)
            .filter_map(|number| {
                charged(&format!("w{}", number % 3), &number.to_string(), Some("a"), CLUSTER).ok()
            })
            .collect();
        assert_eq!((kept.len(), budgets.tenants.used()), (WORKSPACE / CLUSTER, WORKSPACE));
        let refused = charged("w", "c", Some("a"), 1).err().unwrap();
        assert!(refused.message().contains("all clusters of its top-level workspace"), "{refused:?}");
        assert_eq!(Cause::of(&refused), Some(Cause::MemoryBudgetExceeded));
        // Another tenant has its own limit, and root has the memory that tenants cannot use.
        let others: Vec<Charge> = (0..40)
            .filter_map(|number: usize| {
                let top = format!("t{}", number / 2);
                charged(&top, &number.to_string(), Some(&top), CLUSTER).ok()
            })
            .collect();
        assert_eq!(others.len(), (TENANTS - WORKSPACE) / CLUSTER);
        let own: Vec<Charge> =
            (0..40).filter_map(|number| charged("root", &number.to_string(), None, CLUSTER).ok()).collect();
        assert_eq!((own.len(), budgets.process.used()), ((PROCESS - TENANTS) / CLUSTER, PROCESS));
        assert!(charged("root", "c", None, 1).err().unwrap().message().starts_with("all clusters together"));
        drop((kept, others));
        assert_eq!((budgets.tenants.used(), budgets.process.used()), (0, PROCESS - TENANTS));
        drop(own);
        assert_eq!(budgets.process.used(), 0, "refused charges are not counted");
    }
}
