//! Value of the annotation `atoll.dev/keep`: the released objects that refer to an object in a cluster, which
//! is therefore never deleted there.
//!
//! Comma-separated names such as `deployments.apps/web`, of objects in the same namespace of the cluster.

const SEPARATOR: &str = ", ";

/// Adds a name.
pub fn add(kept: &str, name: &str) -> String {
    match (kept.is_empty(), names(kept).any(|known| known == name)) {
        (true, _) => name.to_string(),
        (false, true) => kept.to_string(),
        (false, false) => format!("{kept}{SEPARATOR}{name}"),
    }
}

/// Removes the names for which `is_back` is true; `None` if no name is left.
pub fn remove(kept: &str, is_back: impl Fn(&str) -> bool) -> Option<String> {
    let rest: Vec<&str> = names(kept).filter(|name| !is_back(name)).collect();
    (!rest.is_empty()).then(|| rest.join(SEPARATOR))
}

fn names(kept: &str) -> impl Iterator<Item = &str> {
    kept.split(',').map(str::trim).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let one = add("", "deployments.apps/web");
        let two = add(&one, "jobs.batch/once");
        assert_eq!(two, "deployments.apps/web, jobs.batch/once");
        assert_eq!(add(&two, "deployments.apps/web"), two);
        let is_web = |name: &str| name == "deployments.apps/web";
        assert_eq!(remove(&two, is_web).as_deref(), Some("jobs.batch/once"));
        assert_eq!(remove(&one, is_web), None);
        assert_eq!(remove("", is_web), None);
    }
}
