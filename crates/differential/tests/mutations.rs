//! Changed objects of every kind are accepted and rejected as in kube-apiserver.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use atoll_differential::mutations::report::MutationReport;
use atoll_differential::mutations::samples::{self, Sample};
use atoll_differential::mutations::trial::{self, ServerPair, TrialSettings};
use atoll_differential::servers::{atoll_client, start_atoll, upstream_client};
use atoll_testkit::Upstream;

/// Required share of agreements over all kinds, in percent.
const MIN_AGREEMENT: f64 = 95.0;

/// Number of changes of each kind; `MUTATIONS` overrides it.
const CHANGES: usize = 80;

/// Number of kinds that run concurrently.
const WORKERS: usize = 12;

/// Admission plugins that depend on other objects.
const DISABLED_PLUGINS: &str = "--disable-admission-plugins=DefaultIngressClass,DefaultStorageClass,DefaultTolerationSeconds,LimitRanger,NodeDeclaredFeatureValidator,PodResizeValidator,Priority,RuntimeClass,ServiceAccount,StorageObjectInUseProtection,TaintNodesByCondition";

fn all_samples() -> Vec<Sample> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("objects");
    samples::load(&directory).unwrap_or_else(|problem| panic!("{problem}"))
}

#[test]
fn every_creatable_kind_has_samples() {
    let samples = all_samples();
    let have: BTreeSet<_> = samples.iter().map(|sample| std::ptr::from_ref(sample.resource)).collect();
    for row in atoll_schema::resources() {
        // A binding is not possible without its pod.
        if row.verbs.contains(&"create") && row.resource != "bindings" {
            assert!(have.contains(&std::ptr::from_ref(row)), "no samples of {} {}", row.group, row.resource);
        }
    }
}

/// Returns the samples that `MUTATIONS_OF` selects: `apps`, `deployments`, `apps/deployments`, or a list with
/// commas.
fn selected_samples() -> Vec<Sample> {
    let Ok(names) = std::env::var("MUTATIONS_OF") else { return all_samples() };
    let wanted = |sample: &Sample| {
        let (group, resource) = sample.name.split_once('/').unwrap_or_default();
        names.split(',').any(|name| name == sample.name || name == group || name == resource)
    };
    let selected_samples: Vec<Sample> = all_samples().into_iter().filter(wanted).collect();
    assert!(!selected_samples.is_empty(), "MUTATIONS_OF={names} matches no kind");
    selected_samples
}

fn settings() -> TrialSettings {
    let changes = match std::env::var("MUTATIONS").as_deref() {
        Ok("all") => usize::MAX,
        Ok(number) => {
            number.parse().unwrap_or_else(|_| panic!("MUTATIONS={number} is neither a number nor \"all\""))
        }
        Err(_) => CHANGES,
    };
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    TrialSettings { changes, seed }
}

/// Returns the directory of the report: `mutations` in the target directory, which is not committed.
fn report_directory() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_else(|error| panic!("path of this test: {error}"));
    let target = test.ancestors().nth(3).unwrap_or(Path::new("target"));
    target.join("mutations")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_objects_are_validated_like_upstream() {
    let Some(real) = Upstream::start(&["--", DISABLED_PLUGINS]) else { return };
    let atoll = start_atoll(&[DISABLED_PLUGINS]);
    let settings = settings();
    let all_kinds = std::env::var_os("MUTATIONS_OF").is_none();
    let waiting = Arc::new(Mutex::new(selected_samples()));
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let pair = ServerPair { atoll: atoll_client(&atoll), upstream: upstream_client(&real) };
        let waiting = waiting.clone();
        workers.push(tokio::spawn(async move {
            let mut done = Vec::new();
            while let Some(sample) = { waiting.lock().expect("no holder of the lock panics").pop() } {
                let trials = trial::run(&pair, &sample, settings).await;
                done.push((
                    sample.name.clone(),
                    trials.map_err(|problem| format!("{}: {problem}", sample.name)),
                ));
            }
            done
        }));
    }
    let mut done = Vec::new();
    for worker in workers {
        done.extend(worker.await.expect("workers do not panic"));
    }
    done.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (mut report, mut problems) = (MutationReport::default(), Vec::new());
    for (name, trials) in &done {
        match trials {
            Ok(trials) => report.add(name, trials),
            Err(problem) => problems.push(problem.as_str()),
        }
    }
    let directory = report_directory();
    report.write(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    print!("{}", report.figures());
    println!("list of disagreements: {}/disagreements.txt", directory.display());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(
        !all_kinds || report.agreement() >= MIN_AGREEMENT,
        "{:.1}% is less than {MIN_AGREEMENT}%",
        report.agreement()
    );
}
