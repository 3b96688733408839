//! Random simulation of a set: pods start, fail and end, users scale and update; the order is always kept.

use super::*;

/// Deterministic pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

struct Simulation {
    set: Value,
    revisions: Vec<Value>,
    pods: BTreeMap<i64, Arc<Value>>,
    random: Random,
    parallel: bool,
}

impl Simulation {
    fn new(seed: u64, parallel: bool) -> Simulation {
        let mut set = set(3);
        if parallel {
            set["spec"]["podManagementPolicy"] = "Parallel".into();
        }
        let revisions = vec![revision(&set)];
        Simulation { set, revisions, pods: BTreeMap::new(), random: Random(seed * 2 + 1), parallel }
    }

    fn update(&self) -> &Value {
        self.revisions.last().expect("there is one")
    }

    /// Simulates a user.
    fn change(&mut self) {
        match self.random.below(3) {
            0 => self.set["spec"]["replicas"] = self.random.below(6).into(),
            1 => {
                let image = format!("image-{}", self.random.below(3));
                self.set["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
                let new = revision(&self.set);
                self.revisions.retain(|old| object::name(old) != object::name(&new));
                self.revisions.push(new);
            }
            _ => {
                let partition = self.random.below(4);
                self.set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = partition.into();
            }
        }
    }

    /// Simulates a kubelet: a pod starts, becomes ready or unready, fails, or is gone.
    fn simulate_event(&mut self, may_fail: bool) {
        let Some(ordinal) = self.pods.keys().copied().nth(self.random.below(8) as usize) else { return };
        let pod = &self.pods[&ordinal];
        if object::is_being_deleted(pod) {
            self.pods.remove(&ordinal);
            return;
        }
        let state = match (phase(pod), is_ready(pod), may_fail, self.random.below(10)) {
            ("Failed", ..) => return,
            (_, _, true, 0) => "F",
            (_, true, true, 1) => "R",
            ("Pending", ..) => "R",
            _ => "R*",
        };
        let of = self.revisions.iter().find(|of| object::name(of) == super::super::revision(pod)).cloned();
        let of = of.expect("a known revision");
        self.pods.insert(ordinal, super::pod(&self.set, &of, ordinal, state));
    }

    /// Reconciles, and executes the plan. Returns whether there was anything to do.
    fn reconcile(&mut self) -> bool {
        let pods: Vec<_> = self.pods.values().cloned().collect();
        let current = self.revisions.first().expect("there is one").clone();
        let plan = plan(&self.set, &pods, &current, self.update());
        self.check(&plan);
        let idle = plan.phases.is_empty() && plan.outdated.is_none();
        let steps = plan.phases.into_iter().flatten().flatten();
        for step in steps.chain(plan.outdated.map(PodStep::Delete)) {
            match step {
                PodStep::Create(made, _) => {
                    let ordinal = ordinal(&made).expect("it has one");
                    let mut made = made;
                    made["status"] = json!({"phase": "Pending"});
                    assert!(self.pods.insert(ordinal, Arc::new(made)).is_none(), "two pods of {ordinal}");
                }
                PodStep::Delete(gone) => {
                    let mut gone = gone.as_ref().clone();
                    object::set_deletion_timestamp(&mut gone, &NOW.to_time());
                    self.pods.insert(ordinal(&gone).expect("it has one"), Arc::new(gone));
                }
                other => panic!("{other:?}"),
            }
        }
        !idle
    }

    /// Checks the invariants.
    fn check(&self, plan: &Plan) {
        let is_healthy = |ordinal: i64| {
            self.pods
                .get(&ordinal)
                .is_some_and(|pod| is_running_and_ready(pod) && !object::is_being_deleted(pod))
        };
        let wanted = StatefulSetView::of(&self.set).replicas();
        let steps: Vec<&PodStep> = plan.phases.iter().flatten().flatten().collect();
        if !self.parallel {
            let changes = steps.len() + usize::from(plan.outdated.is_some());
            assert!(changes <= 1, "one change at a time: {}", describe(plan));
        }
        for step in &steps {
            match step {
                PodStep::Create(pod, _) => {
                    let ordinal = ordinal(pod).expect("it has one");
                    assert!(ordinal < wanted && !self.pods.contains_key(&ordinal));
                    assert!(self.parallel || (0..ordinal).all(is_healthy), "before {ordinal} all are well");
                }
                PodStep::Delete(pod) if matches!(phase(pod), "Failed") => {}
                PodStep::Delete(pod) => {
                    let ordinal = ordinal(pod).expect("it has one");
                    assert!(ordinal >= wanted, "only surplus pods are deleted");
                    assert!(self.parallel || (0..wanted).all(is_healthy), "all others are healthy");
                    assert!(
                        self.parallel || self.pods.keys().all(|other| *other <= ordinal),
                        "the last first"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        if let Some(outdated) = &plan.outdated {
            let ordinal = ordinal(outdated).expect("it has one");
            assert!(ordinal >= StatefulSetView::of(&self.set).partition(), "no pod below the partition");
            assert!((ordinal + 1..wanted).all(is_healthy), "all after {ordinal} are well");
            let is_new =
                |ordinal: i64| super::super::revision(&self.pods[&ordinal]) == object::name(self.update());
            assert!((ordinal + 1..wanted).all(is_new), "and updated");
        }
    }
}

#[test]
fn the_order_is_always_kept() {
    for (seed, parallel) in (1..=40).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut simulation = Simulation::new(seed, parallel);
        for _ in 0..200 {
            match simulation.random.below(12) {
                0 => simulation.change(),
                1..=5 => simulation.simulate_event(true),
                _ => drop(simulation.reconcile()),
            }
        }
        // Without changes and failures, the set reaches its desired state.
        simulation.set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 0.into();
        let mut rest = 0;
        for _ in 0..4000 {
            simulation.simulate_event(false);
            rest = if simulation.reconcile() { 0 } else { rest + 1 };
            if rest > 200 {
                break;
            }
        }
        let wanted = StatefulSetView::of(&simulation.set).replicas();
        let ordinals: Vec<i64> = simulation.pods.keys().copied().collect();
        assert_eq!(ordinals, (0..wanted).collect::<Vec<_>>(), "seed {seed}");
        for pod in simulation.pods.values() {
            assert!(is_running_and_ready(pod), "seed {seed}");
            assert_eq!(super::super::revision(pod), object::name(simulation.update()), "seed {seed}");
        }
    }
}
