//! Parses the clusters of `--on`.

use atoll_fleet::placement::Share;
use atoll_meta::names;

/// The value of `--on` for no cluster.
pub const NONE: &str = "none";

/// Maximum number of clusters.
const MAX_CLUSTERS: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares(pub Vec<Share>);

/// Parses `a,b`, `a=3,b=2`, or `none`.
pub fn parse(text: &str) -> Result<Shares, String> {
    if text == NONE {
        return Ok(Shares(Vec::new()));
    }
    let mut shares: Vec<Share> = Vec::new();
    for word in text.split(',') {
        let (name, replicas) = match word.split_once('=') {
            Some((name, count)) => (name, Some(replicas(name, count)?)),
            None => (word, None),
        };
        if name.is_empty() {
            return Err("it must be a comma-separated list of clusters, or none".into());
        }
        if let Some(problem) = names::dns1123_subdomain(name).into_iter().next() {
            return Err(format!("{name:?} is not a valid name of a cluster: {problem}"));
        }
        if shares.iter().any(|share| share.name == name) {
            return Err(format!("{name} is named twice"));
        }
        if shares.len() == MAX_CLUSTERS {
            return Err(format!("at most {MAX_CLUSTERS} clusters can be named"));
        }
        shares.push(Share { name: name.to_string(), replicas, ..Share::default() });
    }
    Ok(Shares(shares))
}

fn replicas(name: &str, count: &str) -> Result<i64, String> {
    match count.parse::<i32>() {
        Ok(count) if count >= 0 => Ok(i64::from(count)),
        _ => Err(format!("invalid number of replicas {count:?} for {name}: it must not be negative")),
    }
}

/// Lists the shares in a sentence.
pub fn format_list(shares: &[Share]) -> String {
    let words = shares.iter().map(|share| match share.replicas {
        Some(count) => format!("{} ({count})", share.name),
        None => share.name.clone(),
    });
    let words: Vec<String> = words.collect();
    match words.as_slice() {
        [] => "no cluster".to_string(),
        [one] => one.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parsed_and_formatted() {
        for (text, expected) in [
            ("a", "a"),
            ("a,b", "a and b"),
            ("a=3,b=2", "a (3) and b (2)"),
            ("a=3,b,c=0", "a (3), b and c (0)"),
            ("none", "no cluster"),
        ] {
            assert_eq!(parse(text).map(|shares| format_list(&shares.0)), Ok(expected.to_string()), "{text}");
        }
    }

    #[test]
    fn invalid_shares_are_refused() {
        for text in ["", ",", "a,", "a,a", "a=", "a=x", "a=-1", "a=1.5", "=3", "A", "a=9999999999", "a b"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
