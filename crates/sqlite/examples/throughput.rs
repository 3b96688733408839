//! Compares the rate of durable writes with the rate of the bare disk: `cargo run --release --example
//! throughput`.
//!
//! The optional argument is the directory to write in, which must be on the disk to measure.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_sqlite::{SqliteOptions, SqliteStore};
use atoll_store::{Condition, Key, Range, Store, Write};
use bytes::Bytes;

const VALUE: usize = 1024;
const MEASURED: Duration = Duration::from_secs(5);

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let parent = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = parent.join(format!("atoll-throughput-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let outcome = measure(&directory);
    std::fs::remove_dir_all(&directory)?;
    outcome
}

fn measure(directory: &Path) -> Result<(), Failure> {
    println!("{:<34}{:>10}{:>12}{:>12}{:>12}", "", "per second", "p50", "p99", "worst");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // The disk is measured before and after, because other programs may use it too.
    report("append 4 KB, fdatasync", floor(directory, false)?);
    report("overwrite 4 KB, fdatasync", floor(directory, true)?);
    for writers in [1, 32, 256] {
        let store = Arc::new(SqliteStore::open(&directory.join("store"), SqliteOptions::default())?);
        let durations = runtime.block_on(write(store.clone(), writers))?;
        report(&format!("put {VALUE} bytes, {writers} at a time"), durations);
        runtime.block_on(store.close());
    }
    report("append 4 KB, fdatasync", floor(directory, false)?);

    let began = Instant::now();
    let store = Arc::new(SqliteStore::open(&directory.join("store"), SqliteOptions::default())?);
    println!("open: {:.1?}", began.elapsed());
    let began = Instant::now();
    let page = runtime.block_on(store.range(Range::all(), None, 0)).map_err(|error| format!("{error:?}"))?;
    println!("read all {} values: {:.1?}", page.entries.len(), began.elapsed());
    let began = Instant::now();
    let (durations, compacted) = runtime.block_on(async {
        let writing = tokio::spawn(write(store.clone(), 1));
        store.compact(page.revision).await.map_err(|error| format!("{error:?}"))?;
        let compacted = began.elapsed();
        Ok::<_, Failure>((writing.await??, compacted))
    })?;
    println!("compact from revision {} to {} rows: {compacted:.1?}", page.revision, page.entries.len());
    report("put, 1 at a time, meanwhile", durations);
    Ok(())
}

/// Durations of durable writes without a store.
fn floor(directory: &Path, overwrite: bool) -> Result<Vec<Duration>, Failure> {
    use std::io::{Seek, SeekFrom};
    let path = directory.join("floor");
    let mut file = File::create(&path)?;
    let page = [7; 4096];
    if overwrite {
        for _ in 0..1024 {
            file.write_all(&page)?;
        }
        file.sync_all()?;
        file.seek(SeekFrom::Start(0))?;
    }
    let mut durations = Vec::new();
    let started = Instant::now();
    while started.elapsed() < MEASURED / 2 {
        if overwrite && durations.len() % 1024 == 0 {
            file.seek(SeekFrom::Start(0))?;
        }
        let began = Instant::now();
        file.write_all(&page)?;
        file.sync_data()?;
        durations.push(began.elapsed());
    }
    std::fs::remove_file(path)?;
    Ok(durations)
}

async fn write(store: Arc<SqliteStore>, writers: usize) -> Result<Vec<Duration>, Failure> {
    let started = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let value = Bytes::from(vec![b'x'; VALUE]);
                let mut durations = Vec::new();
                while started.elapsed() < MEASURED {
                    let key = Key::object(
                        "",
                        "configmaps",
                        "w",
                        "default",
                        &format!("{writer}-{}", durations.len() % 1000),
                    );
                    let began = Instant::now();
                    let value = Some(value.clone());
                    let put = Write { key, expect: Condition::Any, value, guards: Vec::new(), hint: None };
                    store.write(put).await.map_err(|error| format!("{error:?}"))?;
                    durations.push(began.elapsed());
                }
                Ok::<_, Failure>(durations)
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    Ok(all)
}

fn report(what: &str, mut durations: Vec<Duration>) {
    durations.sort_unstable();
    let at = |share: f64| durations[((durations.len() - 1) as f64 * share) as usize];
    let measured = if what.starts_with("put") { MEASURED } else { MEASURED / 2 };
    let rate = durations.len() as f64 / measured.as_secs_f64();
    println!("{what:<34}{rate:>10.0}{:>12.1?}{:>12.1?}{:>12.1?}", at(0.5), at(0.99), at(1.0));
}
