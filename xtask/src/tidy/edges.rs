//! Compares the dependencies between crates with the table in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Finding;

/// The line above the table.
const MARK: &str = "<!-- cargo xtask tidy reads this table -->";
const PAGE: &str = "ARCHITECTURE.md";

/// Names of the crates that a crate uses, or may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Uses {
    built: BTreeSet<String>,
    /// Used by tests, benchmarks and examples only.
    tested: BTreeSet<String>,
}

type Crates = BTreeMap<String, Uses>;

pub fn check(metadata: &Value, page: &str) -> Vec<Finding> {
    let used = used(metadata);
    match allowed(page) {
        Ok(allowed) => compare(&used, &allowed),
        Err(problem) => vec![Finding::error(PAGE, problem)],
    }
}

/// Returns the dependencies between crates of this workspace, from cargo's metadata.
fn used(metadata: &Value) -> Crates {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut crates = Crates::new();
    for package in packages {
        let Some(name) = package["name"].as_str() else { continue };
        let uses = crates.entry(short(name)).or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // A crate may depend on itself to enable a feature for its tests.
            let other = dependency["name"].as_str().filter(|other| names.contains(other) && *other != name);
            let Some(other) = other else { continue };
            let kind = if dependency["kind"] == "dev" { &mut uses.tested } else { &mut uses.built };
            kind.insert(short(other));
        }
    }
    crates
}

/// Removes the prefix that all crates share; the table leaves it out.
fn short(name: &str) -> String {
    name.strip_prefix("atoll-").unwrap_or(name).to_owned()
}

/// Parses the table: crate, crates that it may use, crates that its tests may use in addition.
fn allowed(page: &str) -> Result<Crates, String> {
    let (_, after) = page.split_once(MARK).ok_or_else(|| format!("the line \"{MARK}\" is missing"))?;
    let table = after.lines().skip_while(|line| line.trim().is_empty());
    let rows = table.take_while(|line| line.starts_with('|')).skip(2);
    let mut crates = Crates::new();
    for row in rows {
        let cells: Vec<&str> = row.trim().trim_matches('|').split('|').collect();
        let [name, built, tested] = cells[..] else {
            return Err(format!("a row of the crate table does not have three columns: {row}"));
        };
        let name = name.trim().trim_matches('`').to_owned();
        let uses = Uses { built: names(built), tested: names(tested) };
        if crates.insert(name.clone(), uses).is_some() {
            return Err(format!("the crate table has two rows for {name}"));
        }
    }
    if crates.is_empty() { Err("the crate table has no rows".to_owned()) } else { Ok(crates) }
}

/// Returns the words in backticks.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn compare(used: &Crates, allowed: &Crates) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut wrong = |message: String| findings.push(Finding::error(PAGE, message));
    for (name, uses) in used {
        let Some(may) = allowed.get(name) else {
            wrong(format!("the crate table has no row for {name}"));
            continue;
        };
        for other in uses.built.difference(&may.built) {
            wrong(format!(
                "{name} must not use {other}: its Cargo.toml has this dependency, the crate table does not"
            ));
        }
        for other in
            uses.tested.iter().filter(|other| !may.built.contains(*other) && !may.tested.contains(*other))
        {
            wrong(format!("the tests of {name} must not use {other}: it is not in the crate table"));
        }
    }
    for (name, may) in allowed {
        if !used.contains_key(name) {
            wrong(format!("the crate table has a row for {name}, which does not exist"));
        }
        for other in may.built.union(&may.tested).filter(|other| !used.contains_key(*other)) {
            wrong(format!("the row of {name} in the crate table names {other}, which does not exist"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn metadata() -> Value {
        let dependency = |name: &str, kind: Option<&str>| json!({ "name": name, "kind": kind });
        json!({ "packages": [
            { "name": "atoll-low", "dependencies": [dependency("serde", None), dependency("atoll-low", Some("dev"))] },
            { "name": "atoll-high", "dependencies": [
                dependency("atoll-low", None), dependency("atoll-kit", Some("dev")), dependency("atoll-gen", Some("build")),
            ] },
            { "name": "atoll-kit", "dependencies": [] },
            { "name": "atoll-gen", "dependencies": [] },
        ] })
    }

    fn page(rows: &str) -> String {
        format!(
            "# Page\n\n{MARK}\n| crate | may use | its tests also |\n|---|---|---|\n{rows}\nText | more\n"
        )
    }

    const ROWS: &str = "| `low` | | |\n| `high` | `low` `gen` | `kit` |\n| `kit` | – | – |\n| `gen` | | |\n";

    #[track_caller]
    fn fails(rows: &str, message: &str) {
        let findings = check(&metadata(), &page(rows));
        assert_eq!(findings, [Finding::error(PAGE, message)]);
    }

    #[test]
    fn listed_dependencies_pass() {
        assert_eq!(check(&metadata(), &page(ROWS)), []);
        // Tests may use everything that the crate itself may use.
        let both = ROWS.replace("`low` `gen` | `kit`", "`low` `gen` `kit` |");
        assert_eq!(check(&metadata(), &page(&both)), []);
    }

    #[test]
    fn dependencies_missing_from_the_table_fail() {
        let reason = "its Cargo.toml has this dependency, the crate table does not";
        fails(&ROWS.replace("`low` `gen`", "`gen`"), &format!("high must not use low: {reason}"));
        fails(&ROWS.replace("`low` `gen`", "`low`"), &format!("high must not use gen: {reason}"));
        fails(
            &ROWS.replace("`kit` |\n", " |\n"),
            "the tests of high must not use kit: it is not in the crate table",
        );
    }

    #[test]
    fn test_dependencies_are_not_allowed_in_builds() {
        fails(
            &ROWS.replace("`low` `gen` | `kit`", "`gen` | `kit` `low`"),
            "high must not use low: its Cargo.toml has this dependency, the crate table does not",
        );
    }

    #[test]
    fn rows_without_a_crate_and_crates_without_a_row_fail() {
        fails(&format!("{ROWS}| `gone` | | |\n"), "the crate table has a row for gone, which does not exist");
        fails(
            &ROWS.replace("`low` | |", "`low` | `gone` |"),
            "the row of low in the crate table names gone, which does not exist",
        );
        fails(&ROWS.replace("| `kit` | – | – |\n", ""), "the crate table has no row for kit");
    }

    #[test]
    fn invalid_tables_fail() {
        let problem = |page: &str| check(&metadata(), page)[0].message.clone();
        assert_eq!(problem("# Page"), format!("the line \"{MARK}\" is missing"));
        assert_eq!(problem(&page("")), "the crate table has no rows");
        assert!(problem(&page("| `low` | |\n")).contains("three columns"));
        assert!(problem(&page("| `low` | | |\n| `low` | | |\n")).contains("two rows for low"));
    }
}
