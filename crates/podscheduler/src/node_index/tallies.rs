//! Counts of selected Pods per node, kept while they are in use.
//!
//! Pods of one class are counted alike, so selectors are evaluated once per class.

use std::collections::HashMap;
use std::sync::Arc;

use atoll_meta::LabelSelector;

use crate::pod_affinity::{Class, Matcher, Namespaces};

/// Maximum number of counts; the least recently used ones are removed first.
const LIMIT: usize = 1024;

/// The Pods that are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CountedPods {
    /// Pods of a namespace that match a selector and are not being deleted.
    Spread { namespace: Arc<str>, selector: Arc<LabelSelector> },
    /// Pods that match all of these.
    All(Vec<Arc<Matcher>>),
}

impl CountedPods {
    fn includes(&self, class: &Class, namespaces: &Namespaces) -> bool {
        match self {
            CountedPods::Spread { namespace, selector } => {
                !class.terminating
                    && class.namespace == *namespace
                    && !selector.is_empty()
                    && class.labels.selected_by(selector)
            }
            CountedPods::All(matchers) => matchers.iter().all(|matcher| matcher.matches(class, namespaces)),
        }
    }

    fn depends_on_namespaces(&self) -> bool {
        match self {
            CountedPods::Spread { .. } => false,
            CountedPods::All(matchers) => matchers.iter().any(|matcher| matcher.named_namespaces().is_none()),
        }
    }
}

/// Number of a Pod's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassNumber(u32);

#[derive(Debug)]
struct ClassEntry {
    class: Arc<Class>,
    pods: u32,
    /// Numbers of the tallies that count the class.
    tallies: Vec<u32>,
}

#[derive(Debug)]
struct Tally {
    counted: Arc<CountedPods>,
    /// Counts by node.
    counts: Vec<u32>,
    used: u64,
}

/// All tallies, and the classes of all assigned Pods.
#[derive(Debug, Default)]
pub struct Tallies {
    classes: Vec<Option<ClassEntry>>,
    free_classes: Vec<u32>,
    numbers: HashMap<Arc<Class>, u32>,
    tallies: Vec<Option<Tally>>,
    free_tallies: Vec<u32>,
    known: HashMap<Arc<CountedPods>, u32>,
    clock: u64,
}

impl Tallies {
    /// Counts a Pod on a node.
    pub fn add(&mut self, class: &Arc<Class>, slot: usize, namespaces: &Namespaces) -> ClassNumber {
        let number = self.number(class, namespaces);
        if let Some(entry) = &mut self.classes[number as usize] {
            entry.pods += 1;
            for tally in &entry.tallies {
                if let Some(tally) = &mut self.tallies[*tally as usize] {
                    add(&mut tally.counts, slot, 1);
                }
            }
        }
        ClassNumber(number)
    }

    /// Stops counting a Pod.
    pub fn remove(&mut self, ClassNumber(number): ClassNumber, slot: usize) {
        let Some(entry) = &mut self.classes[number as usize] else { return };
        for tally in &entry.tallies {
            if let Some(tally) = &mut self.tallies[*tally as usize] {
                tally.counts[slot] -= 1;
            }
        }
        entry.pods -= 1;
        if entry.pods == 0 {
            self.numbers.remove(&entry.class);
            self.classes[number as usize] = None;
            self.free_classes.push(number);
        }
    }

    fn number(&mut self, class: &Arc<Class>, namespaces: &Namespaces) -> u32 {
        if let Some(number) = self.numbers.get(class) {
            return *number;
        }
        let number = self.free_classes.pop().unwrap_or_else(|| {
            self.classes.push(None);
            self.classes.len() as u32 - 1
        });
        let tallies = self.tallies.iter().enumerate().filter(|(_, tally)| {
            tally.as_ref().is_some_and(|tally| tally.counted.includes(class, namespaces))
        });
        let tallies = tallies.map(|(index, _)| index as u32).collect();
        self.classes[number as usize] = Some(ClassEntry { class: class.clone(), pods: 0, tallies });
        self.numbers.insert(class.clone(), number);
        number
    }

    /// Starts to count Pods, unless they are counted already. `pods` returns the classes and nodes of all
    /// Pods.
    pub fn prepare<I: Iterator<Item = (ClassNumber, usize)>>(
        &mut self,
        counted: &CountedPods,
        namespaces: &Namespaces,
        pods: impl FnOnce() -> I,
    ) {
        self.clock += 1;
        if let Some(number) = self.known.get(counted) {
            if let Some(tally) = &mut self.tallies[*number as usize] {
                tally.used = self.clock;
            }
            return;
        }
        if self.known.len() >= LIMIT {
            let clock = self.clock;
            self.forget(|tally| clock - tally.used > (LIMIT / 2) as u64);
        }
        let number = self.free_tallies.pop().unwrap_or_else(|| {
            self.tallies.push(None);
            self.tallies.len() as u32 - 1
        });
        let mut included = vec![false; self.classes.len()];
        for (index, entry) in self.classes.iter_mut().enumerate() {
            let Some(entry) = entry else { continue };
            if counted.includes(&entry.class, namespaces) {
                entry.tallies.push(number);
                included[index] = true;
            }
        }
        let mut counts = Vec::new();
        for (ClassNumber(class), slot) in pods() {
            if included[class as usize] {
                add(&mut counts, slot, 1);
            }
        }
        let counted = Arc::new(counted.clone());
        self.known.insert(counted.clone(), number);
        self.tallies[number as usize] = Some(Tally { counted, counts, used: self.clock });
    }

    /// Returns the counts by node; nodes beyond the end have none.
    pub fn counts(&self, counted: &CountedPods) -> &[u32] {
        let tally = self.known.get(counted).and_then(|number| self.tallies[*number as usize].as_ref());
        tally.map_or(&[], |tally| &tally.counts)
    }

    /// Removes the counts that depend on labels of namespaces.
    pub fn namespaces_changed(&mut self) {
        self.forget(|tally| tally.counted.depends_on_namespaces());
    }

    fn forget(&mut self, is_past: impl Fn(&Tally) -> bool) {
        for (number, place) in self.tallies.iter_mut().enumerate() {
            if let Some(tally) = place.take_if(|tally| is_past(tally)) {
                self.known.remove(&tally.counted);
                self.free_tallies.push(number as u32);
            }
        }
        let tallies = &self.tallies;
        for entry in self.classes.iter_mut().flatten() {
            entry.tallies.retain(|number| tallies[*number as usize].is_some());
        }
    }
}

/// Adds to a count in a list that grows as needed.
pub fn add(counts: &mut Vec<u32>, slot: usize, count: u32) {
    if counts.len() <= slot {
        counts.resize(slot + 1, 0);
    }
    counts[slot] += count;
}
