//! Shares in sentences.

use atoll_fleet::placement::Share;

/// Lists the shares in a sentence, by name: their order depends on how the placement came about.
pub fn format_list(shares: &[Share]) -> String {
    let mut shares: Vec<&Share> = shares.iter().collect();
    shares.sort_by(|one, other| one.name.cmp(&other.name));
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
    fn shares_are_listed() {
        let share = |name: &str, replicas| Share { name: name.into(), replicas, ..Share::default() };
        for (shares, expected) in [
            (vec![], "no cluster"),
            (vec![share("a", None)], "a"),
            (vec![share("a", Some(3)), share("c", Some(0)), share("b", None)], "a (3), b and c (0)"),
        ] {
            assert_eq!(format_list(&shares), expected);
        }
    }
}
