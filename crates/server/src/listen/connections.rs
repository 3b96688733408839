//! The limit on open connections. Files are limited by the operating system, so clients that only open
//! connections must not lock out others: beyond the limit, a connection without a request under way is closed
//! to make room for the new one.
//!
//! ```text
//!  accept ─ admit ─┬─► OpenConnection ─ start_request ─► RequestInProgress, until the response has been sent
//!                  └─► refused, if every connection that could be closed is in use
//! ```
//!
//! A client address has at most half of all connections, loopback included. Connections are closed in this
//! order: idle ones without an authenticated request, idle ones, and those with anonymous requests under way.
//! Among these, one of the address with the most connections is closed, and of its connections the one that is
//! idle for the longest time. Watches and upgraded connections are requests under way.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The open connections of a server.
pub struct Connections {
    limit: usize,
    table: Mutex<Table>,
    closed: AtomicU64,
    refused: AtomicU64,
}

/// Numbers for metrics.
pub struct ConnectionCounts {
    pub open: usize,
    /// Connections closed since the start to make room for others.
    pub closed: u64,
    /// Connections refused since the start.
    pub refused: u64,
}

#[derive(Default)]
struct Table {
    next: u64,
    open: HashMap<u64, Arc<ConnectionState>>,
    /// Number of open connections by client address.
    clients: HashMap<IpAddr, usize>,
}

impl Connections {
    pub fn new(limit: usize) -> Arc<Self> {
        let (closed, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Connections { limit, table: Mutex::default(), closed, refused })
    }

    /// Adds a connection, after closing another one if there are too many. `None` if the connection is refused.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Arc<OpenConnection>> {
        let client = client(address);
        let mut table = self.table();
        let own = table.clients.get(&client).copied().unwrap_or_default();
        let client_is_full = own >= (self.limit / 2).max(1);
        if client_is_full || table.open.len() >= self.limit {
            // An address does not take the places of those with fewer connections.
            let Some(chosen) =
                table.choose(|other, count| other == client || (!client_is_full && count > own))
            else {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            };
            if let Some(state) = table.remove(chosen) {
                state.replaced.notify_one();
                self.closed.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (id, state) = table.insert(client);
        Some(Arc::new(OpenConnection { id, state, connections: self.clone() }))
    }

    pub fn counts(&self) -> ConnectionCounts {
        ConnectionCounts {
            open: self.table().open.len(),
            closed: self.closed.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the address that connections are counted by. A client usually has a whole /64 network of IPv6.
fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

impl Table {
    fn insert(&mut self, client: IpAddr) -> (u64, Arc<ConnectionState>) {
        let state = Arc::new(ConnectionState::new(client));
        let id = self.next;
        self.next += 1;
        self.open.insert(id, state.clone());
        *self.clients.entry(client).or_default() += 1;
        (id, state)
    }

    fn remove(&mut self, id: u64) -> Option<Arc<ConnectionState>> {
        let state = self.open.remove(&id)?;
        if let Some(count) = self.clients.get_mut(&state.client) {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&state.client);
            }
        }
        Some(state)
    }

    /// Returns the connection to close among those of the clients that `allowed` accepts with the number of
    /// their connections.
    fn choose(&self, allowed: impl Fn(IpAddr, usize) -> bool) -> Option<u64> {
        let candidates = self.open.iter().filter_map(|(id, state)| {
            let count = self.clients.get(&state.client).copied().unwrap_or_default();
            if !allowed(state.client, count) {
                return None;
            }
            let (rank, since) = state.activity().rank()?;
            Some((rank, Reverse(count), since, *id))
        });
        candidates.min().map(|(.., id)| id)
    }
}

/// An open connection. It is counted until its socket is closed.
pub struct OpenConnection {
    id: u64,
    pub state: Arc<ConnectionState>,
    connections: Arc<Connections>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.table().remove(self.id);
    }
}

/// The use of a connection.
pub struct ConnectionState {
    client: IpAddr,
    activity: Mutex<Activity>,
    became_idle: Notify,
    replaced: Notify,
}

struct Activity {
    /// Requests under way, until their responses have been sent.
    requests: usize,
    idle_since: Instant,
    /// Whether a request was authenticated.
    authenticated: bool,
}

/// The order in which connections are closed.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    IdleAnonymous,
    Idle,
    Anonymous,
}

impl Activity {
    /// `None` if the connection is not closed for others.
    fn rank(&self) -> Option<(Rank, Instant)> {
        let rank = match (self.requests, self.authenticated) {
            (0, false) => Rank::IdleAnonymous,
            (0, true) => Rank::Idle,
            (_, false) => Rank::Anonymous,
            (_, true) => return None,
        };
        Some((rank, self.idle_since))
    }
}

impl ConnectionState {
    fn new(client: IpAddr) -> Self {
        let activity = Activity { requests: 0, idle_since: Instant::now(), authenticated: false };
        ConnectionState {
            client,
            activity: Mutex::new(activity),
            became_idle: Notify::new(),
            replaced: Notify::new(),
        }
    }

    pub fn start_request(self: &Arc<Self>) -> RequestInProgress {
        self.activity().requests += 1;
        RequestInProgress(self.clone())
    }

    /// A request was authenticated.
    pub fn authenticated(&self) {
        self.activity().authenticated = true;
    }

    /// Resolves when the connection must be closed to make room. For one waiting task.
    pub async fn replaced(&self) {
        self.replaced.notified().await;
    }

    /// Resolves when no request was under way for as long as `limit`. For one waiting task.
    pub async fn idle_for(&self, limit: Duration) {
        loop {
            match self.idle_since() {
                None => self.became_idle.notified().await,
                Some(since) if since.elapsed() >= limit => return,
                Some(since) => sleep_until(since + limit).await,
            }
        }
    }

    fn idle_since(&self) -> Option<Instant> {
        let activity = self.activity();
        (activity.requests == 0).then_some(activity.idle_since)
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request is under way while this exists.
pub struct RequestInProgress(Arc<ConnectionState>);

impl RequestInProgress {
    /// Keeps the request under way until the connection ends.
    pub fn upgraded(self) {
        let mut activity = self.0.activity();
        activity.requests += 1;
        // The task that could close the connection ends with the upgrade.
        activity.authenticated = true;
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let mut activity = self.0.activity();
        activity.requests -= 1;
        if activity.requests == 0 {
            activity.idle_since = Instant::now();
            self.0.became_idle.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
