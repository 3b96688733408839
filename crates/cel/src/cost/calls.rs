//! Cost estimates of calls of standard functions.

// upstream: github.com/google/cel-go/checker/cost.go

use super::{CallEstimate, CostEstimate, Node, REGEX_LENGTH, STRING_TRAVERSAL, SizeEstimate};
use crate::types::Type;

/// Maximum length of the name of a format.
const FORMAT: u64 = 64;

fn known(part: &Node<'_>) -> SizeEstimate {
    part.computed.unwrap_or(SizeEstimate::UNKNOWN)
}

/// Estimates the cost of a call. `None` means 1.
pub fn estimate(overload: &str, receiver: Option<&Node<'_>>, arguments: &[Node<'_>]) -> Option<CallEstimate> {
    Some(match (overload, receiver, arguments) {
        ("string_to_bytes", _, [text]) => {
            let size = known(text);
            // A character has at most four bytes.
            let result = SizeEstimate { min: size.min, max: size.max.wrapping_mul(4) };
            CallEstimate::sized(size.at(STRING_TRAVERSAL), result)
        }
        ("bytes_to_string", _, [bytes]) => {
            let size = known(bytes);
            CallEstimate::sized(size.at(STRING_TRAVERSAL), SizeEstimate { min: size.min / 4, max: size.max })
        }
        ("starts_with_string" | "ends_with_string", _, [part]) => {
            CallEstimate::new(known(part).at(STRING_TRAVERSAL))
        }
        ("in_list", _, [_, list]) => CallEstimate::new(known(list).at(1.0)),
        ("matches_string", Some(text), [pattern]) => {
            let text = known(text).plus(SizeEstimate::fixed(1)).at(STRING_TRAVERSAL);
            CallEstimate::new(text.times(known(pattern).at(REGEX_LENGTH)))
        }
        ("contains_string", Some(text), [part]) => {
            CallEstimate::new(known(text).at(STRING_TRAVERSAL).times(known(part).at(STRING_TRAVERSAL)))
        }
        ("equals", _, [one, two]) if one.kind == two.kind && opaque(one, two).is_some() => {
            return opaque(one, two);
        }
        (
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals",
            _,
            [one, two],
        ) => {
            let max = known(one).max.min(known(two).max);
            CallEstimate::new(CostEstimate { min: u64::from(max > 0), max }.at(STRING_TRAVERSAL))
        }
        _ => return None,
    })
}

/// Estimates the equality of two opaque values.
fn opaque(one: &Node<'_>, two: &Node<'_>) -> Option<CallEstimate> {
    let cost = match &one.kind {
        Type::Opaque(name, _) if matches!(&**name, "net.IP" | "net.CIDR") => CostEstimate::fixed(1),
        Type::Object(name, None) => match &**name {
            "kubernetes.Quantity"
            | "kubernetes.Semver"
            | "kubernetes.authorization.Authorizer"
            | "kubernetes.authorization.PathCheck"
            | "kubernetes.authorization.GroupCheck"
            | "kubernetes.authorization.ResourceCheck"
            | "kubernetes.authorization.Decision" => CostEstimate::fixed(1),
            "kubernetes.NamedFormat" => CostEstimate { min: 1, max: FORMAT }.at(STRING_TRAVERSAL),
            "kubernetes.URL" => {
                let size = two.computed.map_or(1, |size| size.max);
                CostEstimate { min: 1, max: size }.at(STRING_TRAVERSAL)
            }
            _ => return None,
        },
        _ => return None,
    };
    Some(CallEstimate::new(cost))
}
