//! Objects of every kind with one thing changed are accepted and refused as kube-apiserver does it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use atoll_differential::mutations::report::Report;
use atoll_differential::mutations::samples::{self, Sample};
use atoll_differential::mutations::trial::{self, Amount, Pair};
use atoll_testkit::{Atoll, Upstream};

/// Of a hundred changes, over all kinds, in so many both servers must say the same.
const FLOOR: f64 = 95.0;

/// Changes of each kind, unless `MUTATIONS` says otherwise.
const CHANGES: usize = 80;

/// Kinds under way at once.
const LANES: usize = 12;

/// Admission that is about more than one object.
const WITHOUT: &str = "--disable-admission-plugins=DefaultIngressClass,DefaultStorageClass,DefaultTolerationSeconds,LimitRanger,NodeDeclaredFeatureValidator,PodResizeValidator,Priority,RuntimeClass,ServiceAccount,StorageObjectInUseProtection,TaintNodesByCondition";

fn all_samples() -> Vec<Sample> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("objects");
    samples::load(&directory).unwrap_or_else(|problem| panic!("{problem}"))
}

#[test]
fn every_kind_that_can_be_created_has_its_objects() {
    let samples = all_samples();
    let have: BTreeSet<_> = samples.iter().map(|sample| std::ptr::from_ref(sample.resource)).collect();
    for row in atoll_schema::resources() {
        // A binding is nothing without its pod.
        if row.verbs.contains(&"create") && row.resource != "bindings" {
            assert!(have.contains(&std::ptr::from_ref(row)), "no objects of {} {}", row.group, row.resource);
        }
    }
}

/// Those that `MUTATIONS_OF` names: `apps`, `deployments`, `apps/deployments`, or several of that with commas.
fn chosen() -> Vec<Sample> {
    let Ok(names) = std::env::var("MUTATIONS_OF") else { return all_samples() };
    let wanted = |sample: &Sample| {
        let (group, resource) = sample.name.split_once('/').unwrap_or_default();
        names.split(',').any(|name| name == sample.name || name == group || name == resource)
    };
    let chosen: Vec<Sample> = all_samples().into_iter().filter(wanted).collect();
    assert!(!chosen.is_empty(), "MUTATIONS_OF={names} names no kind");
    chosen
}

fn amount() -> Amount {
    let changes = match std::env::var("MUTATIONS").as_deref() {
        Ok("all") => usize::MAX,
        Ok(number) => {
            number.parse().unwrap_or_else(|_| panic!("MUTATIONS={number} is neither a number nor all"))
        }
        Err(_) => CHANGES,
    };
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    Amount { changes, seed }
}

/// `mutations` in the target directory, where nobody commits it.
fn listing() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_else(|error| panic!("where is this test? {error}"));
    let target = test.ancestors().nth(3).unwrap_or(Path::new("target"));
    target.join("mutations")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_objects_are_judged_as_kube_apiserver_does() {
    let Some(real) = Upstream::start(&["--", WITHOUT]) else { return };
    let atoll = Atoll::start_with(&["--controllers=false", WITHOUT]);
    let amount = amount();
    let whole = std::env::var_os("MUTATIONS_OF").is_none();
    let waiting = Arc::new(Mutex::new(chosen()));
    let mut lanes = Vec::new();
    for _ in 0..LANES {
        let pair = Pair { ours: atoll.client(), theirs: real.client() };
        let waiting = waiting.clone();
        lanes.push(tokio::spawn(async move {
            let mut done = Vec::new();
            while let Some(sample) = { waiting.lock().expect("nobody panics with it").pop() } {
                let trials = trial::run(&pair, &sample, amount).await;
                done.push((
                    sample.name.clone(),
                    trials.map_err(|problem| format!("{}: {problem}", sample.name)),
                ));
            }
            done
        }));
    }
    let mut done = Vec::new();
    for lane in lanes {
        done.extend(lane.await.expect("a lane does not panic"));
    }
    done.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (mut report, mut problems) = (Report::default(), Vec::new());
    for (name, trials) in &done {
        match trials {
            Ok(trials) => report.add(name, trials),
            Err(problem) => problems.push(problem.as_str()),
        }
    }
    let directory = listing();
    report.write(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    print!("{}", report.figures());
    println!("every disagreement: {}/disagreements.txt", directory.display());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(!whole || report.agreement() >= FLOOR, "{:.1}% is less than {FLOOR}%", report.agreement());
}
