//! Shares in sentences.

use atoll_fleet::placement::{Share, have_same_clusters};

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

/// Ends a sentence about an object that gets other shares. It "moves" only if its clusters change.
pub fn destination(shares: &[Share], target: &[Share]) -> String {
    let how = if have_same_clusters(shares, target) { "on the way" } else { "moving" };
    format!("; it is {how} to {}", format_list(target))
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

    #[test]
    fn objects_that_are_only_scaled_do_not_move() {
        let share = |name: &str, replicas| Share { replicas: Some(replicas), ..Share::on(name, name) };
        let (before, scaled) = ([share("a", 3)], [share("a", 4)]);
        assert_eq!(destination(&before, &scaled), "; it is on the way to a (4)");
        assert_eq!(destination(&before, &[share("b", 3)]), "; it is moving to b (3)");
    }
}
