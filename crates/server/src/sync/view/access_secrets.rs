//! Lines about access Secrets, with which Pods in the cluster reach the API of their workspace. They are made here,
//! and stored nowhere above.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use atoll_authn::service_account::{Lifetime, Subject};
use atoll_fleet::api_access::{self, AccountRef};
use atoll_fleet::view::{Drift, SyncLine};
use atoll_meta::{Deadline, Status, id, object, time};
use atoll_registry::{INLINE_TIMEOUT, LARGE, ObjectRef, run_in_place, run_until_deadline};
use atoll_store::{Key, Revision, key};
use serde_json::Value;
use tokio::time::Instant;

use super::super::parse;
use super::{View, ViewEnded};

/// Longest interval between checks of all accounts: tokens expire, and not all accounts are placed objects whose
/// changes are known.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Size in bytes of an object that takes about as long as the check of an account, whose rights are looked for in all
/// bindings of its workspace.
const CHECK_SIZE: usize = 4 << 10;

/// The accounts of the workloads in a view.
pub struct AccessSecrets {
    accounts: BTreeMap<AccountRef, Account>,
    /// The account of each workload.
    workloads: HashMap<Key, Workload>,
    /// Accounts whose Secret may have to be sent or removed.
    changed: BTreeSet<AccountRef>,
    next_check: Instant,
}

#[derive(PartialEq, Eq)]
struct Workload {
    account: AccountRef,
    /// Whether it refers to the Secret.
    is_user: bool,
}

/// An account of a workload.
#[derive(Default)]
struct Account {
    workloads: usize,
    users: usize,
    /// The account above, as workloads were last shaped for it.
    above: AccountAbove,
    /// Revision at which it was read.
    revision: Option<Revision>,
    secret: SecretState,
}

#[derive(Default)]
enum SecretState {
    /// The cluster has none, as far as known.
    #[default]
    Absent,
    Sent {
        above: AccountAbove,
        /// Seconds since 1970.
        renew_at: i64,
    },
    Removed,
}

/// A ServiceAccount above.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AccountAbove {
    /// `None` if it does not exist.
    uid: Option<String>,
    automounts: bool,
    /// Whether it has rights that do not leave the control plane for this cluster.
    is_withheld: bool,
}

impl Default for AccountAbove {
    fn default() -> Self {
        AccountAbove { uid: None, automounts: true, is_withheld: false }
    }
}

impl Default for AccessSecrets {
    fn default() -> Self {
        AccessSecrets {
            accounts: BTreeMap::new(),
            workloads: HashMap::new(),
            changed: BTreeSet::new(),
            next_check: Instant::now(),
        }
    }
}

impl AccessSecrets {
    pub fn len(&self) -> usize {
        self.accounts.len()
    }

    pub fn next_check(&self) -> Instant {
        self.next_check
    }

    /// Sets the account of a workload.
    fn set(&mut self, key: &Key, workload: Option<Workload>) {
        if workload.is_some() && self.workloads.get(key) == workload.as_ref() {
            return;
        }
        let old = match workload {
            Some(new) => {
                let account = self.accounts.entry(new.account.clone()).or_default();
                account.workloads += 1;
                account.users += usize::from(new.is_user);
                self.changed.insert(new.account.clone());
                self.workloads.insert(key.clone(), new)
            }
            None => self.workloads.remove(key),
        };
        let Some(old) = old else { return };
        if let Some(account) = self.accounts.get_mut(&old.account) {
            account.workloads = account.workloads.saturating_sub(1);
            account.users = account.users.saturating_sub(usize::from(old.is_user));
        }
        self.changed.insert(old.account);
    }

    /// Forgets the account of an object that is not sent any more.
    pub fn forget(&mut self, key: &Key) {
        self.set(key, None);
    }

    /// Records that the cluster removes a workload, and that it may have its Secret.
    fn leave(&mut self, key: &Key, account: AccountRef) {
        self.set(key, None);
        let left = self.accounts.entry(account.clone()).or_default();
        if left.users == 0 && matches!(left.secret, SecretState::Absent) {
            left.secret = SecretState::Sent { above: AccountAbove::default(), renew_at: 0 };
        }
        self.changed.insert(account);
    }

    /// Checks the accounts soon if this object, which has changed, is one of them.
    pub fn note_changed(&mut self, key: &Key) {
        let Some(parts) = key.parts() else { return };
        if (parts.api_group(), parts.resource) != ("", "serviceaccounts") {
            return;
        }
        let [workspace, namespace, name] = [parts.workspace, parts.namespace, parts.name].map(String::from);
        if self.accounts.contains_key(&AccountRef { workspace, namespace, name }) {
            self.next_check = Instant::now();
        }
    }
}

impl View {
    /// Returns the address of this server for Pods of the cluster, if they may be able to reach it.
    fn address_for_pods(&self) -> Option<SocketAddr> {
        // An agent has no relay for Pods yet.
        let is_direct = atoll_fleet::ClusterView::of(&self.registered).mode() != "pull";
        self.server.pod_api.as_ref().filter(|_| is_direct)?.address()
    }

    /// Gives the Pods of a shaped object access to the API of their workspace, unless `stays`.
    pub(super) fn give_access(&mut self, key: &Key, parts: &key::Parts<'_>, shaped: &mut Value, stays: bool) {
        let account = account_ref(parts, shaped);
        let (Some(address), Some(account)) = (self.address_for_pods(), account) else {
            return self.access.forget(key);
        };
        let (above, revision) = self.account_above(&account);
        let is_user = !stays && api_access::give_access(shaped, &account, above.automounts, address);
        self.access.set(key, Some(Workload { account: account.clone(), is_user }));
        let AccessSecrets { accounts, next_check, .. } = &mut self.access;
        let Some(known) = accounts.get_mut(&account) else { return };
        match known.workloads > 1 && known.above.automounts != above.automounts {
            // The other workloads of the account follow.
            true => *next_check = Instant::now(),
            false => (known.above, known.revision) = (above, revision),
        }
    }

    /// Records that the cluster removes an object.
    pub(super) fn end_access(&mut self, key: &Key, parts: &key::Parts<'_>, object: &Value) {
        match account_ref(parts, object).filter(|_| self.address_for_pods().is_some()) {
            Some(account) => self.access.leave(key, account),
            None => self.access.forget(key),
        }
    }

    /// Returns an account above, and the revision at which it was read.
    fn account_above(&self, account: &AccountRef) -> (AccountAbove, Option<Revision>) {
        let AccountRef { workspace, namespace, name } = account;
        let key = Key::object("", "serviceaccounts", workspace, namespace, name);
        let found = self.server.registry.snapshot().get(&key);
        let revision = found.as_ref().map(|found| found.revision);
        let known = self.access.accounts.get(account);
        let known = known.filter(|known| revision.is_some() && known.revision == revision);
        let (uid, automounts) = match known {
            Some(known) => (known.above.uid.clone(), known.above.automounts),
            None => {
                let found = found.and_then(|found| parse(&found.json()).ok());
                let uid = found.as_ref().map(|found| object::uid(found).to_string());
                (uid, found.is_none_or(|found| found["automountServiceAccountToken"] != false))
            }
        };
        // Rights that take long to find out count as granted, so that the token is withheld.
        let grants_any = |deadline: &Deadline<'_>| {
            self.server.policies.at(workspace, deadline).grants_any(namespace, name)
        };
        let is_withheld = !self.controllers && run_until_deadline(INLINE_TIMEOUT, grants_any);
        (AccountAbove { uid, automounts, is_withheld }, revision)
    }

    /// Sends the Secret that a workload has come to need. The line of the workload follows.
    pub(super) async fn send_needed_secret(&mut self, workload: &Key) -> Result<(), ViewEnded> {
        let Some(Workload { account, .. }) = self.access.workloads.get(workload) else { return Ok(()) };
        let known = self.access.accounts.get(account);
        let is_needed =
            known.is_some_and(|known| known.users > 0 && !matches!(known.secret, SecretState::Sent { .. }));
        let account = account.clone();
        if is_needed { self.send_secret(&account).await } else { Ok(()) }
    }

    /// Sends all Secrets that have changed or are not needed any more.
    pub(super) async fn send_changed_secrets(&mut self) -> Result<(), ViewEnded> {
        for account in std::mem::take(&mut self.access.changed) {
            self.send_secret(&account).await?;
        }
        Ok(())
    }

    /// Checks all accounts if it is time to: renews their tokens, and shapes workloads again whose account was
    /// changed.
    pub(super) async fn check_access(&mut self) -> Result<(), ViewEnded> {
        if Instant::now() < self.access.next_check {
            return Ok(());
        }
        let lifetime = self.server.pod_api.as_ref().map_or(0, |api| api.token_seconds);
        let part = Duration::from_secs(u64::try_from(lifetime / 20).unwrap_or_default().max(1));
        self.access.next_check = Instant::now() + CHECK_INTERVAL.min(part);
        let accounts: Vec<AccountRef> = self.access.accounts.keys().cloned().collect();
        let mut is_other = BTreeSet::new();
        for account in accounts {
            let turn = self.burst.begin(&self.server.registry, &account.workspace, CHECK_SIZE).await;
            let size = if turn.is_some() { LARGE } else { CHECK_SIZE };
            let (above, revision) = run_in_place(size, || self.account_above(&account));
            drop(turn);
            if let Some(known) = self.access.accounts.get_mut(&account) {
                if known.workloads > 0 && known.above.automounts != above.automounts {
                    is_other.insert(account.clone());
                }
                (known.above, known.revision) = (above, revision);
            }
            self.access.changed.insert(account);
        }
        let workloads = self.access.workloads.iter();
        let again = workloads.filter(|(_, workload)| is_other.contains(&workload.account));
        let mut keys: Vec<Key> = again.map(|(key, _)| key.clone()).collect();
        keys.sort_unstable();
        self.send_again(keys).await?;
        self.send_changed_secrets().await
    }

    /// Sends the line about the Secret of an account, if there is anything new.
    async fn send_secret(&mut self, account: &AccountRef) -> Result<(), ViewEnded> {
        let Some(known) = self.access.accounts.get(account) else { return Ok(()) };
        let (target, server) = (account.target(), self.server.clone());
        if known.users > 0 {
            let above = known.above.clone();
            let now = server.registry.clock.seconds();
            let is_current = match &known.secret {
                SecretState::Sent { above: sent, renew_at } => *sent == above && now < *renew_at,
                _ => false,
            };
            // Without the account there is no token; Pods of the cluster wait for the account, too.
            if is_current || above.uid.is_none() {
                return Ok(());
            }
            let Some((secret, renew_at)) = self.secret(account, &above, now) else { return Ok(()) };
            server.access_removals.cancel(&self.uid, &target.uid);
            self.set_secret(account, SecretState::Sent { above, renew_at });
            let (drift, held) = (Drift::Correct, false);
            return self
                .send(&SyncLine::Object { target, generation: now, object: secret, drift, held })
                .await;
        }
        match known.secret {
            SecretState::Sent { .. } => {
                server.access_removals.request(&self.uid, &target.uid);
                self.set_secret(account, SecretState::Removed);
                self.send(&SyncLine::Remove { target, since: 0 }).await
            }
            SecretState::Removed if server.access_removals.take_confirmed(&self.uid, &target.uid) => {
                self.set_secret(account, SecretState::Absent);
                self.send(&SyncLine::Forget { target }).await
            }
            SecretState::Removed | SecretState::Absent => {
                self.forget_unused(account);
                Ok(())
            }
        }
    }

    fn set_secret(&mut self, account: &AccountRef, secret: SecretState) {
        if let Some(known) = self.access.accounts.get_mut(account) {
            known.secret = secret;
        }
        self.forget_unused(account);
    }

    fn forget_unused(&mut self, account: &AccountRef) {
        let known = self.access.accounts.get(account);
        if known.is_some_and(|known| known.workloads == 0 && matches!(known.secret, SecretState::Absent)) {
            self.access.accounts.remove(account);
        }
    }

    /// Returns a Secret with a new token, and the time to renew it.
    fn secret(&self, account: &AccountRef, above: &AccountAbove, now: i64) -> Option<(Value, i64)> {
        let api = self.server.pod_api.as_ref()?;
        let until = now + api.token_seconds;
        let token = match above.is_withheld {
            true => None,
            false => Some(self.token(account, above, Lifetime { from: now, until, warn_after: None })),
        };
        let token = token.transpose().map_err(|status| {
            tracing::warn!(%status, cluster = self.cluster, account = account.name, "cannot issue a token for Pods; retrying");
        });
        let secret = account.secret(token.ok()?.as_deref(), &api.authority_pem, &time::format(until));
        Some((secret, now + api.token_seconds / 5 * 4))
    }

    fn token(
        &self,
        account: &AccountRef,
        above: &AccountAbove,
        lifetime: Lifetime,
    ) -> Result<String, Status> {
        let failed = |cause: &str| Status::internal_error(format!("failed to generate token: {cause}"));
        let AccountRef { workspace, namespace, name } = account;
        let tokens = self.server.tokens.as_ref().ok_or_else(|| failed("there is no signing key"))?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| failed(&error.to_string()))?;
        let key = Key::object("", "serviceaccounts", workspace, namespace, name);
        let found = self.server.registry.snapshot().get(&key).ok_or_else(|| failed("there is no account"))?;
        let found = parse(&found.json())?;
        let uid = above.uid.as_deref().unwrap_or_default();
        let subject = Subject { workspace, namespace, name, uid, bound: Vec::new() };
        let object_ref = ObjectRef { workspace, namespace, name };
        let dialects = self.server.registry.enabled_dialects(workspace);
        let claims = dialects.iter().flat_map(|dialect| dialect.token_claims(&object_ref, &found)).collect();
        let audiences = [tokens.issuer(workspace)];
        let issued = tokens.issue_with_claims(&subject, &audiences, &id::uuid_v4(random), lifetime, claims);
        issued.map_err(|_| failed("it cannot be signed"))
    }
}

/// Returns the account of an object's Pods, unless they use the API of their cluster.
fn account_ref(parts: &key::Parts<'_>, object: &Value) -> Option<AccountRef> {
    let name = api_access::account(object)?.to_string();
    Some(AccountRef { workspace: parts.workspace.into(), namespace: parts.namespace.into(), name })
}
