//! Costs of library functions, in the order of upstream's table. Changing an estimate changes which rules are
//! accepted.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/cost.go
// upstream: github.com/google/cel-go/ext/lists.go

use crate::cost::{
    CallEstimate, CostEstimate, Node, REGEX_LENGTH, STRING_TRAVERSAL, SizeEstimate, Sizes, actual_size,
    charge, traversal_cost,
};
use crate::types::Type;
use crate::value::Value;

type Arguments<'v, 'a> = &'v [Value<'a>];
type CallResult<'v, 'a> = Option<&'v Value<'a>>;

const LIST_CREATE: u64 = 10;
const STRUCT_CREATE: u64 = 40;
/// Pattern length that upstream assumes for unknown formats.
const FORMAT_PATTERN: f64 = 128.0;

fn size(arguments: Arguments, index: usize) -> u64 {
    arguments.get(index).map_or(1, actual_size)
}

fn fixed(cost: u64) -> Option<CallEstimate> {
    Some(CallEstimate::new(CostEstimate::fixed(cost)))
}

/// Cost of an authorization check: two of them reach the limit of an expression.
pub(super) fn check(_: Arguments, _: CallResult) -> u64 {
    350_000
}

pub(super) fn estimate_check(_: &Sizes, _: Option<&Node>, _: &[Node]) -> Option<CallEstimate> {
    fixed(350_000)
}

/// Cost of parsing a selector: a list of requirements of at least two characters each.
pub(super) fn selector(arguments: Arguments, _: CallResult) -> u64 {
    selector_estimate(SizeEstimate::fixed(size(arguments, 1))).max
}

pub(super) fn estimate_selector(sizes: &Sizes, _: Option<&Node>, arguments: &[Node]) -> Option<CallEstimate> {
    Some(CallEstimate::new(selector_estimate(sizes.of(arguments.first()?))))
}

fn selector_estimate(length: SizeEstimate) -> CostEstimate {
    let requirements = length.at(0.5).at((LIST_CREATE + STRUCT_CREATE) as f64);
    CostEstimate::fixed(LIST_CREATE).plus(length.at(STRING_TRAVERSAL)).plus(requirements)
}

/// Cost of traversing the receiver.
pub(super) fn walk(arguments: Arguments, _: CallResult) -> u64 {
    arguments.first().map_or(0, traversal_cost)
}

/// Estimates the traversal of a list or a string.
pub(super) fn estimate_walk(sizes: &Sizes, target: Option<&Node>, _: &[Node]) -> Option<CallEstimate> {
    let target = target?;
    let Some(items) = sizes.items(target) else {
        return Some(CallEstimate::new(sizes.of(target).at(STRING_TRAVERSAL)));
    };
    let mut item = CostEstimate::fixed(1);
    if matches!(items.kind, Type::String | Type::Bytes) {
        item = item.plus(sizes.of(&items).at(STRING_TRAVERSAL));
    }
    Some(CallEstimate::new(sizes.of(target).times_cost(item)))
}

/// Cost of reading the first argument once.
pub(super) fn read(arguments: Arguments, _: CallResult) -> u64 {
    charge(size(arguments, 0), STRING_TRAVERSAL)
}

pub(super) fn estimate_read(sizes: &Sizes, _: Option<&Node>, arguments: &[Node]) -> Option<CallEstimate> {
    Some(CallEstimate::new(sizes.of(arguments.first()?).at(STRING_TRAVERSAL)))
}

/// Estimates reading the first argument, with a result of about the same length.
pub(super) fn estimate_copy(
    sizes: &Sizes,
    target: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    let size = sizes.of(target.or(arguments.first())?);
    Some(CallEstimate::sized(size.at(STRING_TRAVERSAL), size))
}

/// Cost of reading the first argument and writing about as much.
pub(super) fn read_twice(arguments: Arguments, _: CallResult) -> u64 {
    (size(arguments, 0) as f64 * 2.0 * STRING_TRAVERSAL).ceil() as u64
}

pub(super) fn estimate_read_twice(
    sizes: &Sizes,
    _: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    Some(CallEstimate::new(sizes.of(arguments.first()?).at(2.0 * STRING_TRAVERSAL)))
}

pub(super) fn estimate_replace(
    sizes: &Sizes,
    target: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    let text = sizes.of(target?);
    let (old, new) = (sizes.of(arguments.first()?), sizes.of(arguments.get(1)?));
    // Maximum length: as many occurrences of the shortest old string as fit, replaced by the longest new one.
    let (most, most_kept) = if old.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        ((text.max as f64 / old.min as f64).ceil() as u64, 0)
    };
    // Minimum length: the reverse.
    let (least, least_kept) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        ((text.min as f64 / old.max as f64).ceil() as u64, 0)
    };
    let count = SizeEstimate { min: least, max: most };
    let kept = SizeEstimate { min: least_kept, max: most_kept };
    Some(CallEstimate::sized(text.at(2.0 * STRING_TRAVERSAL), count.times(new).plus(kept)))
}

pub(super) fn estimate_split(
    sizes: &Sizes,
    target: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    let text = sizes.of(target?);
    let limit = arguments.get(1).and_then(|limit| limit.literal).and_then(Value::as_int);
    // A negative limit becomes a very large one.
    let max = limit.map_or(text.max, |limit| limit as u64);
    Some(CallEstimate::sized(text.at(2.0 * STRING_TRAVERSAL), SizeEstimate { min: 0, max }))
}

/// Cost of reading and writing the result.
pub(super) fn join(_: Arguments, result: CallResult) -> u64 {
    (result.map_or(1, actual_size) as f64 * 2.0 * STRING_TRAVERSAL).ceil() as u64
}

pub(super) fn estimate_join(
    sizes: &Sizes,
    target: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    let target = target?;
    let list = sizes.of(target);
    let mut size = match sizes.items(target) {
        Some(items) => list.times(sizes.of(&items)),
        None => SizeEstimate::fixed(0),
    };
    if let Some(separator) = arguments.first() {
        let count = SizeEstimate { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
        size = size.plus(sizes.of(separator).times(count));
    }
    Some(CallEstimate::sized(size.at(STRING_TRAVERSAL), size))
}

/// Cost of searching a string for a pattern.
pub fn find(arguments: Arguments, _: CallResult) -> u64 {
    pattern_cost(size(arguments, 0), size(arguments, 1))
}

/// Returns the cost of matching. An empty string still has a cost.
pub(super) fn pattern_cost(text: u64, pattern: u64) -> u64 {
    let text = ((1.0 + text as f64) * STRING_TRAVERSAL).ceil() as u64;
    text.saturating_mul(charge(pattern, REGEX_LENGTH))
}

pub(super) fn estimate_find(
    sizes: &Sizes,
    target: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    let text = sizes.of(target?);
    let pattern = sizes.of(arguments.first()?).at(REGEX_LENGTH);
    let cost = text.plus(SizeEstimate::fixed(1)).at(STRING_TRAVERSAL).times(pattern);
    Some(CallEstimate::sized(cost, SizeEstimate { min: 0, max: text.max }))
}

pub(super) fn estimate_validate(sizes: &Sizes, _: Option<&Node>, arguments: &[Node]) -> Option<CallEstimate> {
    let text = sizes.of(arguments.first()?);
    Some(CallEstimate::new(text.at(STRING_TRAVERSAL).at(FORMAT_PATTERN * REGEX_LENGTH)))
}

/// Cost of comparing the bytes of a network with those of an address.
pub(super) fn contains_address(arguments: Arguments, _: CallResult) -> u64 {
    charge(2 * size(arguments, 0), STRING_TRAVERSAL)
}

/// Cost of parsing an address and comparing it.
pub(super) fn contains_address_text(arguments: Arguments, result: CallResult) -> u64 {
    contains_address(arguments, result) + charge(size(arguments, 1), STRING_TRAVERSAL)
}

/// Cost of comparing two networks: masking one and comparing prefix lengths.
pub(super) fn contains_network(arguments: Arguments, result: CallResult) -> u64 {
    contains_address(arguments, result) + charge(size(arguments, 0), STRING_TRAVERSAL) + 1
}

/// Cost of parsing a network and comparing it.
pub(super) fn contains_network_text(arguments: Arguments, result: CallResult) -> u64 {
    contains_network(arguments, result) + charge(size(arguments, 1), STRING_TRAVERSAL)
}

/// Addresses have 4 or 16 bytes.
const BYTES: SizeEstimate = SizeEstimate { min: 4, max: 16 };

pub(super) fn estimate_contains_address(_: &Sizes, _: Option<&Node>, _: &[Node]) -> Option<CallEstimate> {
    Some(CallEstimate::new(BYTES.plus(BYTES).at(STRING_TRAVERSAL)))
}

pub(super) fn estimate_contains_network(_: &Sizes, _: Option<&Node>, _: &[Node]) -> Option<CallEstimate> {
    let compared = BYTES.plus(BYTES).at(STRING_TRAVERSAL).plus(BYTES.at(STRING_TRAVERSAL));
    Some(CallEstimate::new(compared.plus(CostEstimate::fixed(1))))
}

pub(super) fn estimate_contains_address_text(
    sizes: &Sizes,
    target: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    with_reading(estimate_contains_address(sizes, target, arguments)?, sizes, arguments)
}

pub(super) fn estimate_contains_network_text(
    sizes: &Sizes,
    target: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    with_reading(estimate_contains_network(sizes, target, arguments)?, sizes, arguments)
}

fn with_reading(estimate: CallEstimate, sizes: &Sizes, arguments: &[Node]) -> Option<CallEstimate> {
    let reading = sizes.of(arguments.first()?).at(STRING_TRAVERSAL);
    Some(CallEstimate::new(estimate.cost.plus(reading)))
}

/// Estimates quoting: every character may need an escape, and two quotes are added.
pub(super) fn estimate_quote(sizes: &Sizes, _: Option<&Node>, arguments: &[Node]) -> Option<CallEstimate> {
    let text = sizes.of(arguments.first()?);
    let result =
        SizeEstimate { min: text.min.wrapping_add(2), max: text.max.wrapping_mul(2).wrapping_add(2) };
    Some(CallEstimate::sized(text.at(STRING_TRAVERSAL), result))
}

/// Estimates formatting as a traversal of the format string. The length of the result is unknown.
pub(super) fn estimate_format(sizes: &Sizes, target: Option<&Node>, _: &[Node]) -> Option<CallEstimate> {
    Some(CallEstimate::new(sizes.of(target?).at(STRING_TRAVERSAL)))
}

/// Cost of comparing each element of one list with each of another.
pub(super) fn cross(arguments: Arguments, _: CallResult) -> u64 {
    size(arguments, 0).saturating_mul(size(arguments, 1)).saturating_add(1)
}

/// Cost of the same in both directions.
pub(super) fn cross_twice(arguments: Arguments, _: CallResult) -> u64 {
    let both = size(arguments, 0).saturating_mul(size(arguments, 1));
    ((both as f64 * 2.0) as u64).saturating_add(1)
}

pub(super) fn estimate_cross(sizes: &Sizes, _: Option<&Node>, arguments: &[Node]) -> Option<CallEstimate> {
    estimate_cross_at(1.0, sizes, arguments)
}

pub(super) fn estimate_cross_twice(
    sizes: &Sizes,
    _: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    estimate_cross_at(2.0, sizes, arguments)
}

fn estimate_cross_at(factor: f64, sizes: &Sizes, arguments: &[Node]) -> Option<CallEstimate> {
    let (first, second) = (arguments.first()?, arguments.get(1)?);
    let cost = sizes.of(first).times(sizes.of(second)).at(factor);
    Some(CallEstimate::new(cost.plus(CostEstimate::fixed(1))))
}

/// Cost of 1, as upstream charges for overloads that are ambiguous at run time.
pub(super) fn one(_: Arguments, _: CallResult) -> u64 {
    1
}

/// Returns the cost of a new list with this number of items.
fn new_list(factor: f64, items: u64) -> u64 {
    ((items as f64 * factor) as u64).saturating_add(1 + LIST_CREATE)
}

fn estimate_new_list(factor: f64, items: SizeEstimate) -> CallEstimate {
    let cost = items.at(factor).plus(CostEstimate::fixed(1)).plus(CostEstimate::fixed(LIST_CREATE));
    CallEstimate::sized(cost, items)
}

/// Cost of building a list item by item.
pub(super) fn make_list(_: Arguments, result: CallResult) -> u64 {
    new_list(1.0, result.map_or(1, actual_size))
}

/// Cost of flattening a list to the requested depth.
pub(super) fn flatten(arguments: Arguments, _: CallResult) -> u64 {
    let depth = arguments.get(1).and_then(Value::as_int).unwrap_or(1);
    new_list(depth as f64, size(arguments, 0))
}

/// Cost of comparing the items of a list, or of its sort keys, with each other.
pub(super) fn compare_items(arguments: Arguments, _: CallResult) -> u64 {
    arguments.last().map_or(0, |list| {
        let first = list.as_list().and_then(|list| list.get(0));
        let is_text = matches!(first, Some(Ok(Value::String(_) | Value::Bytes(_))));
        let items = actual_size(list);
        new_list(if is_text { 2.0 + STRING_TRAVERSAL } else { 2.0 }, items.saturating_mul(items))
    })
}

/// Returns a literal argument, at least 0, or else the alternative.
fn literal_or(node: &Node, otherwise: u64) -> u64 {
    match node.literal {
        Some(Value::Int(number)) => u64::try_from(*number).unwrap_or(0),
        _ => otherwise,
    }
}

pub(super) fn estimate_slice(
    sizes: &Sizes,
    target: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    let [start, end] = arguments else { return None };
    let length = literal_or(end, sizes.of(target?).max).wrapping_sub(literal_or(start, 0));
    Some(estimate_new_list(1.0, SizeEstimate::fixed(length)))
}

pub(super) fn estimate_range(_: &Sizes, _: Option<&Node>, arguments: &[Node]) -> Option<CallEstimate> {
    Some(estimate_new_list(1.0, SizeEstimate::fixed(literal_or(arguments.first()?, u64::MAX))))
}

pub(super) fn estimate_reverse(sizes: &Sizes, target: Option<&Node>, _: &[Node]) -> Option<CallEstimate> {
    Some(estimate_new_list(1.0, sizes.of(target?)))
}

pub(super) fn estimate_flatten(
    sizes: &Sizes,
    target: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    let depth = arguments.first().map_or(1, |depth| literal_or(depth, u64::MAX));
    Some(estimate_new_list(depth as f64, sizes.of(target?)))
}

/// Estimates comparing the items of a list, or of its sort keys, with each other.
pub(super) fn estimate_compare(
    sizes: &Sizes,
    target: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    estimate_compare_at(2.0, sizes, target, arguments)
}

/// Estimates the same for strings or bytes.
pub(super) fn estimate_compare_texts(
    sizes: &Sizes,
    target: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    estimate_compare_at(2.0 + STRING_TRAVERSAL, sizes, target, arguments)
}

fn estimate_compare_at(
    factor: f64,
    sizes: &Sizes,
    target: Option<&Node>,
    arguments: &[Node],
) -> Option<CallEstimate> {
    let items = sizes.of(arguments.first().or(target)?);
    Some(estimate_new_list(factor, items.times(items)))
}
