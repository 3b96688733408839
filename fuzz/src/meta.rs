//! Texts in objects and requests.

use std::collections::HashSet;

use atoll_meta::json::{self as json_text};
use atoll_meta::quantity::Quantity;
use atoll_meta::{FieldSelector, LabelSelector, Status, time as times};
use serde_json::Value;

use crate::{Accepted, text};

/// Parsed JSON can be serialized, and both Atoll's parser and serde_json read the result in the same way.
pub fn json(bytes: &[u8]) -> Accepted {
    json_text::splice_resource_version(bytes, 0);
    let parsed = json_text::parse(bytes).ok()?;
    let written = json_text::to_vec(&parsed.value);
    let again = json_text::parse(&written).expect("serialized JSON can be parsed");
    assert!(again.duplicates.is_empty());
    // A float without a fraction is written as an integer, so values may differ where texts may not. -0.0 is
    // written as -0, which is parsed as the integer 0, as in Go.
    let rewritten = json_text::to_vec(&again.value);
    assert!(rewritten == written || written.windows(2).any(|pair| pair == b"-0"));
    assert_eq!(json_text::to_vec(&json_text::parse(&rewritten).expect("and again").value), rewritten);
    // serde_json has a lower limit of nesting.
    if let Err(error) = serde_json::from_slice::<Value>(&written) {
        assert!(error.to_string().contains("recursion limit"), "{error}");
    }
    let stored = json_text::encode_object(&parsed.value);
    json_text::parse(&json_text::splice_resource_version(&stored, u64::MAX))
        .expect("stored objects can be parsed");
    json_text::parse(&[b"{", &stored[json_text::prefix_len(&stored)..]].concat())
        .expect("list items can be parsed");
    Some(())
}

/// A selector has a canonical form with the same meaning, and selectors in the form of objects do not panic.
pub fn label_selector(bytes: &[u8]) -> Accepted {
    if let Ok(parsed) = json_text::parse(bytes) {
        let _ = LabelSelector::from_object(&parsed.value);
    }
    let selector = LabelSelector::parse(text(bytes)?).ok()?;
    assert_eq!(LabelSelector::parse(&selector.to_string()).as_ref(), Ok(&selector));
    selector.matches(|_| Some("1"));
    selector.matches(|_| None);
    Some(())
}

/// A selector has a canonical form with the same terms.
pub fn field_selector(bytes: &[u8]) -> Accepted {
    let selector = FieldSelector::parse(text(bytes)?).ok()?;
    let again = FieldSelector::parse(&selector.to_string()).expect("the canonical form can be parsed");
    // The order depends on the text, and `==` sorts differently from `=`.
    let terms: HashSet<_> = selector.terms().iter().collect();
    assert_eq!(again.terms().iter().collect::<HashSet<_>>(), terms);
    selector.matches(|_| Some("1"));
    selector.matches(|_| None::<&str>);
    Some(())
}

/// A quantity that is formatted and parsed again is equal.
pub fn quantity(bytes: &[u8]) -> Accepted {
    let quantity = Quantity::parse(text(bytes)?).ok()?;
    let again = Quantity::parse(&quantity.canonical()).expect("the canonical form can be parsed");
    assert_eq!(again, quantity);
    let mut sum = quantity.clone();
    sum.add(&again);
    sum.subtract(&quantity);
    let _ = (quantity.units(), quantity.millis(), quantity.is_negative(), sum.to_string());
    Some(())
}

/// A time that is formatted and parsed again is the same instant.
pub fn time(bytes: &[u8]) -> Accepted {
    let text = text(bytes)?;
    let mut accepted = None;
    for parsed in [times::parse(text), times::parse_micro(text)] {
        match parsed {
            // An offset can move a time out of the years with four digits.
            Ok(instant) if instant.to_time().len() == "2006-01-02T15:04:05Z".len() => {
                assert_eq!(times::parse(&instant.to_time()).map(|again| again.seconds), Ok(instant.seconds));
                assert_eq!(
                    times::parse_micro(&instant.to_micro_time()).map(|again| again.nanos),
                    Ok(instant.nanos / 1000 * 1000)
                );
                accepted = Some(());
            }
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    accepted
}

/// A duration that is formatted and parsed again is equal.
pub fn duration(bytes: &[u8]) -> Accepted {
    let text = text(bytes)?;
    let nanos = times::parse_duration(text);
    match times::explain_duration(text) {
        Ok(same) => assert_eq!(nanos, Some(same)),
        Err(reason) => assert!(nanos.is_none() && reason.starts_with("time: ")),
    }
    let printed = times::format_duration(nanos?);
    assert_eq!(times::parse_duration(&printed), nanos, "{printed}");
    Some(())
}

/// A status that is written and parsed again is equal.
pub fn status(bytes: &[u8]) -> Accepted {
    let status = Status::from_value(&json_text::parse(bytes).ok()?.value)?;
    let again = Status::from_value(&json_text::parse(&status.to_json()).expect("a status is JSON").value)
        .expect("a written status can be parsed");
    assert_eq!((again.code(), again.message()), (status.code(), status.message()));
    Some(())
}
