//! Power cuts: what was acknowledged is there afterwards.

use std::path::Path;
use std::sync::Arc;

use atoll_sqlite::{Options, SqliteStore, Synchronous};
use atoll_store::suite::follower::Follower;
use atoll_store::suite::history::{self, Operation};
use atoll_store::suite::random::{Random, seeds};
use atoll_store::suite::workload::{self, Workload};
use atoll_store::{Change, Entry, Page, Range, Store};

use crate::disk::Disk;

/// How often the power is cut in the life of one store.
const LIVES: usize = 4;

#[test]
fn no_acknowledged_write_is_lost() {
    for seed in seeds(30) {
        if let Err(violation) = live_through_power_cuts(seed, Synchronous::Full) {
            panic!("seed {seed}: {violation}");
        }
    }
}

/// The same test, on a store that does not wait for the disk, must fail; else it proves nothing.
#[test]
fn without_syncing_writes_would_be_lost() {
    let seeds = seeds(10);
    let violations = seeds.iter().filter_map(|seed| live_through_power_cuts(*seed, Synchronous::Off).err());
    let lost = violations.inspect(|violation| println!("{violation}")).count();
    assert!(lost > seeds.len() / 2, "only {lost} of {} stores lost something", seeds.len());
}

fn live_through_power_cuts(seed: u64, synchronous: Synchronous) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut random = Random::new(seed);
    let mut directory = tempfile::tempdir().unwrap();
    let mut known = Page { entries: Vec::new(), revision: 0, more: false };
    for life in 0..LIVES {
        let disk = Disk::new(random.number());
        // From cuts while the store is being opened to cuts long after.
        disk.cut_after(random.below(if life == 0 { 40 } else { 900 }));
        // A short log, so that it is moved into the database every now and then.
        let options = Options { synchronous, checkpoint_pages: 30, ..disk.options() };
        let (mut log, mut operations) = (Vec::new(), Vec::new());
        if let Ok(store) = SqliteStore::open(directory.path(), options) {
            let store: Arc<dyn Store> = Arc::new(store);
            (log, operations) = runtime.block_on(live(&store, random.number(), &known))?;
        }
        disk.cut();
        directory = tempfile::tempdir().unwrap();
        disk.restore(directory.path());
        known = runtime.block_on(check_survival(directory.path(), &known, log, &operations))?;
    }
    Ok(())
}

/// Uses the store until its power has been cut for a while. Returns its log, and what clients did.
async fn live(
    store: &Arc<dyn Store>,
    seed: u64,
    known: &Page,
) -> Result<(Vec<Change>, Vec<Operation>), String> {
    let initial = read(&**store).await?;
    compare(known, &initial)?;
    let follower = Follower::start(store, initial.revision).await;
    let follower = follower.map_err(|error| format!("following: {error:?}"))?;
    let workload = Workload { clients: 8, operations: 40, keys: 6, compacting: true };
    let operations = workload::run(store, seed, workload).await;
    Ok((follower.changes(), operations))
}

/// Checks that what was there before, and what followers have been shown since, is there now. So may be the one
/// batch that was on its way when the power went, or the first part of it. Returns what is there.
async fn check_survival(
    directory: &Path,
    known: &Page,
    mut log: Vec<Change>,
    operations: &[Operation],
) -> Result<Page, String> {
    let store = SqliteStore::open(directory, Options::default()).map_err(|error| error.to_string())?;
    let store: Arc<dyn Store> = Arc::new(store);
    let last = log.last().map_or(known.revision, |change| change.revision);
    let follower = Follower::start(&store, last).await;
    let arrived = follower.map_err(|error| format!("revision {last} is gone: {error:?}"))?.changes();
    for (change, expected) in arrived.iter().zip(last + 1..) {
        if change.revision != expected {
            return Err(format!("{change:?} is there, but {expected} is not"));
        }
    }
    log.extend(arrived);
    history::check(known, &log, operations)?;
    let found = read(&*store).await?;
    compare(&replayed(known.clone(), &log), &found)?;
    Ok(found)
}

async fn read(store: &dyn Store) -> Result<Page, String> {
    store.range(Range::all(), None, 0).await.map_err(|error| format!("reading: {error:?}"))
}

/// What is there once a log has happened.
fn replayed(mut page: Page, log: &[Change]) -> Page {
    for change in log {
        page.entries.retain(|entry| entry.key != change.key);
        if let Some(value) = change.value.clone() {
            page.entries.push(Entry { key: change.key.clone(), value, revision: change.revision });
        }
        page.revision = change.revision;
    }
    page.entries.sort_by(|one, other| one.key.cmp(&other.key));
    page
}

fn compare(expected: &Page, found: &Page) -> Result<(), String> {
    if (found.revision, &found.entries) == (expected.revision, &expected.entries) {
        return Ok(());
    }
    Err(format!("expected {expected:?}, found {found:?}"))
}
