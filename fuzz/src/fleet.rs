//! Data that the components of a fleet exchange.

use atoll_fleet::Placement;
use atoll_fleet::namespaces::Locator;
use atoll_fleet::overrides::{Overrides, validate};
use atoll_fleet::references::references;
use atoll_fleet::shape::shape;
use atoll_fleet::view::{Report, SyncLine};
use atoll_meta::{FieldPath, json};
use atoll_placement::intent::Intent;
use serde_json::Value;

use crate::{Accepted, lines, text};

/// A placement that is written and parsed again is equal, and no cluster is lost when a placement becomes
/// empty.
pub fn placement(bytes: &[u8]) -> Accepted {
    let placement = Placement::parse(text(bytes)?)?;
    if let Some(again) = placement.text() {
        assert_eq!(Placement::parse(&again).as_ref(), Some(&placement));
    }
    let nowhere = placement.decided(Vec::new(), "hand");
    assert!(placement.names().all(|name| nowhere.leaving.iter().any(|leaving| leaving.name == name)));
    let names: Vec<&str> = placement.names().collect();
    assert!(
        names.iter().fold(placement.clone(), |rest, name| rest.confirm_removed(name, "", true)).is_empty()
    );
    Some(())
}

/// A line of the sync view that is written and parsed again is equal.
pub fn sync_line(bytes: &[u8]) -> Accepted {
    let line = SyncLine::parse(bytes)?;
    assert_eq!(SyncLine::parse(line.bytes().trim_ascii_end()).as_ref(), Some(&line));
    Some(())
}

/// A report that is written and parsed again is equal.
pub fn sync_report(bytes: &[u8]) -> Accepted {
    let report: Report = serde_json::from_slice(bytes).ok()?;
    let again = serde_json::to_vec(&report).expect("reports can be serialized");
    assert_eq!(serde_json::from_slice::<Report>(&again).ok().as_ref(), Some(&report));
    Some(())
}

/// Valid overrides can be applied to any object. The input is overrides and an object, one per line.
pub fn overrides(bytes: &[u8]) -> Accepted {
    let [overrides, object] = lines(bytes)?;
    let value = |text: &str| json::parse(text.as_bytes()).ok().map(|parsed| parsed.value);
    let (overrides, mut object): (Value, Value) = (value(overrides)?, value(object)?);
    let is_right = validate(&overrides, &FieldPath::new("spec")).is_empty();
    let read = Overrides::read(&overrides);
    assert!(read.is_ok() || !is_right, "valid overrides can be parsed");
    let before = object.clone();
    if read.ok()?.apply(&mut object).is_err() {
        assert_eq!(object, before, "failed overrides change nothing");
    }
    Some(())
}

/// Shaping an object twice gives the same result as shaping it once.
pub fn shaped(bytes: &[u8]) -> Accepted {
    let object = json::parse(bytes).ok()?.value;
    let once = shape(&object, "east", None);
    assert_eq!(shape(&once, "east", None), once);
    let found = references(&object);
    assert!(found.is_sorted());
    object.is_object().then_some(())
}

/// A locator that is written and parsed again is equal, and the namespace below has a valid name.
pub fn locator(bytes: &[u8]) -> Accepted {
    let locator = Locator::parse(text(bytes)?).ok()?;
    assert_eq!(Locator::parse(&locator.text()).as_ref(), Ok(&locator));
    assert!(locator.below(false).len() <= 63);
    Some(())
}

/// An intent names each cluster once, and is equal when it is written and parsed again.
pub fn intent(bytes: &[u8]) -> Accepted {
    let intent = Intent::parse(text(bytes)?).ok()?;
    assert_eq!(Intent::parse(&intent.to_string()).as_ref(), Ok(&intent));
    let mut names: Vec<&str> = intent.clusters().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    Some(())
}
