//! Power cuts: acknowledged writes survive.

use std::path::Path;
use std::sync::Arc;

use atoll_sqlite::{SqliteOptions, SqliteStore, Synchronous};
use atoll_store::suite::history::{self, HistoryOperation};
use atoll_store::suite::random::{Random, seeds};
use atoll_store::suite::subscriber::Subscriber;
use atoll_store::suite::workload::{self, Workload};
use atoll_store::{Change, Entry, Page, Range, Store};

use crate::disk::Disk;

/// Number of power cuts of one store.
const POWER_CUTS: usize = 4;

#[test]
fn no_acknowledged_write_is_lost() {
    for seed in seeds(30) {
        if let Err(violation) = run_with_power_cuts(seed, Synchronous::Full) {
            panic!("seed {seed}: {violation}");
        }
    }
}

/// The same test must fail on a store that does not wait for the disk; otherwise it would prove nothing.
#[test]
fn without_syncing_writes_would_be_lost() {
    let seeds = seeds(10);
    let violations = seeds.iter().filter_map(|seed| run_with_power_cuts(*seed, Synchronous::Off).err());
    let lost = violations.inspect(|violation| println!("{violation}")).count();
    assert!(lost > seeds.len() / 2, "only {lost} of {} stores lost something", seeds.len());
}

fn run_with_power_cuts(seed: u64, synchronous: Synchronous) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut random = Random::new(seed);
    let mut directory = tempfile::tempdir().unwrap();
    let mut known = Page { entries: Vec::new(), revision: 0, more: false };
    for life in 0..POWER_CUTS {
        let disk = Disk::new(random.number());
        // From cuts during opening to cuts long after.
        disk.cut_after(random.below(if life == 0 { 40 } else { 900 }));
        // A short log, so that it is checkpointed frequently.
        let options = SqliteOptions { synchronous, checkpoint_pages: 30, ..disk.options() };
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

/// Runs the workload until the power has been cut for a while. Returns the store's log and the operations of
/// the clients.
async fn live(
    store: &Arc<dyn Store>,
    seed: u64,
    known: &Page,
) -> Result<(Vec<Change>, Vec<HistoryOperation>), String> {
    let initial = read(&**store).await?;
    compare(known, &initial)?;
    let subscriber = Subscriber::start(store, initial.revision).await;
    let subscriber = subscriber.map_err(|error| format!("following: {error:?}"))?;
    let workload = Workload { clients: 8, operations: 40, keys: 6, compacting: true };
    let operations = workload::run(store, seed, workload).await;
    Ok((subscriber.changes(), operations))
}

/// Checks that entries from before, and changes that subscribers received since, are present. The batch that
/// was being committed when the power was cut may be present too, completely or in part. Returns the current
/// entries.
async fn check_survival(
    directory: &Path,
    known: &Page,
    mut log: Vec<Change>,
    operations: &[HistoryOperation],
) -> Result<Page, String> {
    let store = SqliteStore::open(directory, SqliteOptions::default()).map_err(|error| error.to_string())?;
    let store: Arc<dyn Store> = Arc::new(store);
    let last = log.last().map_or(known.revision, |change| change.revision);
    let subscriber = Subscriber::start(&store, last).await;
    let arrived = subscriber.map_err(|error| format!("revision {last} is missing: {error:?}"))?.changes();
    for (change, expected) in arrived.iter().zip(last + 1..) {
        if change.revision != expected {
            return Err(format!("{change:?} is present, but {expected} is missing"));
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

/// The entries after applying a log.
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
