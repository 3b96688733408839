//! Selectors of objects in caches. A change of a pod is compared with the selectors of all objects in its
//! namespace, so long ones are parsed once and not for every change.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use atoll_meta::LabelSelector;
use serde_json::Value;

/// Number of values in a selector from which it is kept.
const LONG: usize = 32;

type Parsed = Result<Arc<LabelSelector>, String>;

/// The parsed long selectors of objects that are in a cache.
static PARSED: LazyLock<Mutex<ParsedSelectors>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct ParsedSelectors {
    /// By the address of the object, which is not used again while there is a weak reference.
    by_object: HashMap<usize, (Weak<Value>, Parsed)>,
    /// Number of entries from which those of dropped objects are removed.
    max: usize,
}

/// Returns the `spec.selector` of an object.
pub fn of_object(owner: &Arc<Value>) -> Parsed {
    parsed(owner, |owner| LabelSelector::from_object(&owner["spec"]["selector"]))
}

/// Returns the selector that `parse` finds in an object with a `spec.selector`. It must be the same function for
/// all objects of a kind.
pub fn parsed(owner: &Arc<Value>, parse: impl Fn(&Value) -> Result<LabelSelector, String>) -> Parsed {
    if !is_long(&owner["spec"]["selector"]) {
        return parse(owner).map(Arc::new);
    }
    let address = Arc::as_ptr(owner) as usize;
    if let Some((_, parsed)) = state().by_object.get(&address) {
        return parsed.clone();
    }
    let parsed = parse(owner).map(Arc::new);
    state().keep(address, owner, parsed.clone());
    parsed
}

fn state() -> MutexGuard<'static, ParsedSelectors> {
    PARSED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ParsedSelectors {
    fn keep(&mut self, address: usize, owner: &Arc<Value>, parsed: Parsed) {
        if self.by_object.len() >= self.max {
            self.by_object.retain(|_, (owner, _)| owner.strong_count() > 0);
            self.max = 2 * self.by_object.len() + 16;
        }
        self.by_object.insert(address, (Arc::downgrade(owner), parsed));
    }
}

fn is_long(selector: &Value) -> bool {
    let mut left = LONG;
    !fits(selector, &mut left)
}

/// Whether there are no more than `left` values.
fn fits(value: &Value, left: &mut usize) -> bool {
    *left = left.saturating_sub(1);
    *left > 0
        && match value {
            Value::Array(items) => items.iter().all(|item| fits(item, left)),
            Value::Object(fields) => fields.values().all(|field| fits(field, left)),
            _ => true,
        }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    #[test]
    fn long_selectors_are_parsed_once() {
        let values: Vec<String> = (0..LONG).map(|number| format!("v{number}")).collect();
        let expression = json!({ "key": "app", "operator": "In", "values": values });
        let long = json!({ "spec": { "selector": { "matchExpressions": [expression] } } });
        let short = json!({ "spec": { "selector": { "matchLabels": { "app": "web" } } } });
        for (owner, expected) in [(long, 1), (short, 3)] {
            let (owner, count) = (Arc::new(owner), Cell::new(0));
            let parse = |owner: &Value| {
                count.set(count.get() + 1);
                LabelSelector::from_object(&owner["spec"]["selector"])
            };
            let all = [(); 3].map(|()| parsed(&owner, parse).unwrap());
            assert_eq!(count.get(), expected);
            assert!(all.iter().all(|selector| **selector == parse(&owner).unwrap()));
        }
    }

    #[test]
    fn selectors_of_dropped_objects_are_not_kept() {
        let mut selectors = ParsedSelectors::default();
        let nothing = Ok(Arc::new(LabelSelector::nothing()));
        for _ in 0..1000 {
            let owner = Arc::new(json!({}));
            selectors.keep(Arc::as_ptr(&owner) as usize, &owner, nothing.clone());
        }
        assert!(selectors.by_object.len() <= 32, "{}", selectors.by_object.len());
        let owner = Arc::new(json!({}));
        let address = Arc::as_ptr(&owner) as usize;
        selectors.keep(address, &owner, nothing.clone());
        for _ in 0..100 {
            let other = Arc::new(json!({}));
            selectors.keep(Arc::as_ptr(&other) as usize, &other, nothing.clone());
        }
        assert!(selectors.by_object.contains_key(&address));
    }
}
