//! Bounds of numbers, lengths and counts, and patterns.

use serde_json::Value;

use super::SchemaWalk;
use crate::difference::shortened;
use crate::schema_view::{Fields, SchemaType, SchemaView};

/// Two keywords that limit a count from both sides, and the word for it.
const COUNTS: [(&str, &str, &str); 3] = [
    ("minLength", "maxLength", "characters"),
    ("minItems", "maxItems", "items"),
    ("minProperties", "maxProperties", "fields"),
];

/// Integers from this one on have no exact float.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
/// The API server converts bounds of integers, which fails from this one on.
const LARGEST_INTEGER: f64 = 9_223_372_036_854_775_808.0;

impl<'s> SchemaWalk<'s> {
    pub(super) fn merge_limits(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        kind: SchemaType,
        merged: &mut Fields,
    ) {
        for (least, most, unit) in COUNTS {
            self.merge_counts(offered, cluster, (least, most, unit), merged);
        }
        self.merge_range(offered, cluster, kind, merged);
        self.merge_multiple(offered, cluster, merged);
        if cluster.flag("uniqueItems") && !offered.flag("uniqueItems") {
            self.lose("repeated items", "unique items");
            merged.insert("uniqueItems".to_owned(), true.into());
        }
        match (offered.text("pattern"), cluster.text("pattern")) {
            (None, Some(other)) => {
                self.lose("no pattern", pattern_words(other));
                merged.insert("pattern".to_owned(), other.into());
            }
            (Some(one), Some(other)) if one != other => {
                self.contradict(pattern_words(one), pattern_words(other));
            }
            _ => {}
        }
    }

    fn merge_counts(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        (least, most, unit): (&str, &str, &str),
        merged: &mut Fields,
    ) {
        let words = |view: SchemaView<'_>, name: &str| match view.count(name) {
            Some(count) if name == least => format!("at least {count} {unit}"),
            Some(count) => format!("at most {count} {unit}"),
            None => "any number of ".to_owned() + unit,
        };
        let (mut one, other) =
            ((offered.count(least), offered.count(most)), (cluster.count(least), cluster.count(most)));
        let was_empty = is_empty(one);
        let raised = other.0.filter(|other| one.0.is_none_or(|one| one < *other));
        let lowered = other.1.filter(|other| one.1.is_none_or(|one| one > *other));
        one = (raised.or(one.0), lowered.or(one.1));
        if is_empty(one) && !was_empty {
            // The pair that leaves nothing: one side of each schema.
            let (one, other) = if raised.is_some() && !is_empty((raised, offered.count(most))) {
                (words(offered, least), words(cluster, most))
            } else if raised.is_some() {
                (words(offered, most), words(cluster, least))
            } else {
                (words(offered, least), words(cluster, most))
            };
            return self.contradict(one, other);
        }
        for (name, changed) in [(least, raised), (most, lowered)] {
            if let Some(count) = changed {
                self.lose(words(offered, name), words(cluster, name));
                merged.insert(name.to_owned(), count.into());
            }
        }
    }

    fn merge_range(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        kind: SchemaType,
        merged: &mut Fields,
    ) {
        let least = [NumberBound::least(offered), NumberBound::least(cluster)];
        let most = [NumberBound::most(offered), NumberBound::most(cluster)];
        let was_empty = is_empty_range(least[0], most[0]);
        let mut stricter = [least[0], most[0]];
        for (side, [one, other]) in [least, most].into_iter().enumerate() {
            let Some(other) = other else { continue };
            if let Some(one) = one
                && one != other
                && !(one.is_comparable(kind) && other.is_comparable(kind))
            {
                return self.contradict(one.words(), other.words());
            }
            let common = one.map_or(other, |one| one.stricter(other));
            if one == Some(common) {
                continue;
            }
            stricter[side] = Some(common);
        }
        let [low, high] = stricter;
        if is_empty_range(low, high) && !was_empty {
            let (one, other) = if low == least[0] || is_empty_range(least[0], most[1]) {
                (least[0], most[1])
            } else {
                (most[0], least[1])
            };
            return self.contradict(bound_words(one), bound_words(other));
        }
        let sides =
            [("minimum", "exclusiveMinimum", least, low), ("maximum", "exclusiveMaximum", most, high)];
        for (name, exclusive, [one, other], common) in sides {
            let Some(common) = common.filter(|common| one != Some(*common)) else { continue };
            self.lose(bound_words(one), bound_words(other));
            let source = if one.is_some_and(|one| one.bound == common.bound) { offered } else { cluster };
            merged.insert(name.to_owned(), source.fields().get(name).cloned().unwrap_or(Value::Null));
            if common.is_exclusive {
                merged.insert(exclusive.to_owned(), true.into());
            } else {
                merged.remove(exclusive);
            }
        }
    }

    fn merge_multiple(&mut self, offered: SchemaView<'s>, cluster: SchemaView<'s>, merged: &mut Fields) {
        let Some(other) = cluster.float("multipleOf") else { return };
        let words = |factor: f64| format!("multiples of {factor}");
        let adopted = || cluster.fields().get("multipleOf").cloned().unwrap_or(Value::Null);
        match offered.float("multipleOf") {
            None => {
                self.lose("no multipleOf", words(other));
                merged.insert("multipleOf".to_owned(), adopted());
            }
            Some(one) if one == other || is_multiple(one, other) => {}
            Some(one) if is_multiple(other, one) => {
                self.lose(words(one), words(other));
                merged.insert("multipleOf".to_owned(), adopted());
            }
            Some(one) => self.contradict(words(one), words(other)),
        }
    }
}

/// Whether no count is within the limits.
fn is_empty((least, most): (Option<i64>, Option<i64>)) -> bool {
    most.is_some_and(|most| most < least.unwrap_or_default().max(0))
}

/// Whether an integer is a multiple of another one.
fn is_multiple(number: f64, factor: f64) -> bool {
    let is_plain = |number: f64| number >= 1.0 && number.fract() == 0.0 && number < LARGEST_EXACT;
    is_plain(number) && is_plain(factor) && number % factor == 0.0
}

fn pattern_words(pattern: &str) -> String {
    format!("pattern {}", shortened(pattern))
}

/// A minimum or maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NumberBound {
    bound: f64,
    is_exclusive: bool,
    is_least: bool,
}

impl NumberBound {
    fn least(view: SchemaView<'_>) -> Option<NumberBound> {
        let bound = view.float("minimum")?;
        Some(NumberBound { bound, is_exclusive: view.flag("exclusiveMinimum"), is_least: true })
    }

    fn most(view: SchemaView<'_>) -> Option<NumberBound> {
        let bound = view.float("maximum")?;
        Some(NumberBound { bound, is_exclusive: view.flag("exclusiveMaximum"), is_least: false })
    }

    /// Whether the API server applies the bound as it is: it converts bounds to the type of the number.
    fn is_comparable(self, kind: SchemaType) -> bool {
        let is_whole = self.bound.fract() == 0.0 || kind == SchemaType::Number;
        is_whole && self.bound.abs() < LARGEST_INTEGER
    }

    fn stricter(self, other: NumberBound) -> NumberBound {
        let is_stricter = if self.is_least { self.bound >= other.bound } else { self.bound <= other.bound };
        let bound = if is_stricter { self } else { other };
        // Integers are compared with the whole part of a bound.
        let is_close = self.bound.trunc() == other.bound.trunc();
        let is_exclusive =
            if is_close { self.is_exclusive || other.is_exclusive } else { bound.is_exclusive };
        NumberBound { is_exclusive, ..bound }
    }

    fn words(self) -> String {
        let NumberBound { bound, is_exclusive, is_least } = self;
        match (is_least, is_exclusive) {
            (true, false) => format!("minimum {bound}"),
            (true, true) => format!("more than {bound}"),
            (false, false) => format!("maximum {bound}"),
            (false, true) => format!("less than {bound}"),
        }
    }
}

fn bound_words(bound: Option<NumberBound>) -> String {
    bound.map_or("no bound".to_owned(), NumberBound::words)
}

/// Whether no number is within the bounds.
fn is_empty_range(least: Option<NumberBound>, most: Option<NumberBound>) -> bool {
    let (Some(least), Some(most)) = (least, most) else { return false };
    let is_exclusive = least.is_exclusive || most.is_exclusive;
    least.bound > most.bound || least.bound == most.bound && is_exclusive
}
