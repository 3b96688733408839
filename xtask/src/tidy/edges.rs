//! Which crate uses which, compared with the table in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Finding;

/// Stands above the table.
const MARK: &str = "<!-- cargo xtask tidy reads this table -->";
const PAGE: &str = "ARCHITECTURE.md";

/// The names of crates that one crate uses, or may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Uses {
    built: BTreeSet<String>,
    /// By tests, benchmarks and examples only.
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

/// The edges between crates of this workspace, as cargo sees them.
fn used(metadata: &Value) -> Crates {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut crates = Crates::new();
    for package in packages {
        let Some(name) = package["name"].as_str() else { continue };
        let uses = crates.entry(short(name)).or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // A crate may turn on a feature of its own for its tests.
            let other = dependency["name"].as_str().filter(|other| names.contains(other) && *other != name);
            let Some(other) = other else { continue };
            let kind = if dependency["kind"] == "dev" { &mut uses.tested } else { &mut uses.built };
            kind.insert(short(other));
        }
    }
    crates
}

/// The prefix that all names share says nothing in a table.
fn short(name: &str) -> String {
    name.strip_prefix("atoll-").unwrap_or(name).to_owned()
}

/// The edges that the page allows: rows of crate, what it may use, what its tests may use besides.
fn allowed(page: &str) -> Result<Crates, String> {
    let (_, behind) = page.split_once(MARK).ok_or_else(|| format!("it has no line \"{MARK}\""))?;
    let table = behind.lines().skip_while(|line| line.trim().is_empty());
    let rows = table.take_while(|line| line.starts_with('|')).skip(2);
    let mut crates = Crates::new();
    for row in rows {
        let cells: Vec<&str> = row.trim().trim_matches('|').split('|').collect();
        let [name, built, tested] = cells[..] else {
            return Err(format!("a row of the table of crates does not have three columns: {row}"));
        };
        let name = name.trim().trim_matches('`').to_owned();
        let uses = Uses { built: names(built), tested: names(tested) };
        if crates.insert(name.clone(), uses).is_some() {
            return Err(format!("the table of crates has two rows for {name}"));
        }
    }
    if crates.is_empty() { Err("the table of crates has no rows".to_owned()) } else { Ok(crates) }
}

/// The words in backticks.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn compare(used: &Crates, allowed: &Crates) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut wrong = |message: String| findings.push(Finding::error(PAGE, message));
    for (name, uses) in used {
        let Some(may) = allowed.get(name) else {
            wrong(format!("the table of crates has no row for {name}"));
            continue;
        };
        for other in uses.built.difference(&may.built) {
            wrong(format!(
                "{name} may not use {other}: its Cargo.toml says so, the table of crates does not"
            ));
        }
        for other in
            uses.tested.iter().filter(|other| !may.built.contains(*other) && !may.tested.contains(*other))
        {
            wrong(format!("the tests of {name} may not use {other}: the table of crates does not say so"));
        }
    }
    for (name, may) in allowed {
        if !used.contains_key(name) {
            wrong(format!("the table of crates has a row for {name}, which does not exist"));
        }
        for other in may.built.union(&may.tested).filter(|other| !used.contains_key(*other)) {
            wrong(format!("the row of {name} in the table of crates names {other}, which does not exist"));
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
    fn edges_that_are_allowed_pass() {
        assert_eq!(check(&metadata(), &page(ROWS)), []);
        // What may be used in a build may be used in tests.
        let both = ROWS.replace("`low` `gen` | `kit`", "`low` `gen` `kit` |");
        assert_eq!(check(&metadata(), &page(&both)), []);
    }

    #[test]
    fn edges_that_are_not_in_the_table_fail() {
        let saying = "its Cargo.toml says so, the table of crates does not";
        fails(&ROWS.replace("`low` `gen`", "`gen`"), &format!("high may not use low: {saying}"));
        fails(&ROWS.replace("`low` `gen`", "`low`"), &format!("high may not use gen: {saying}"));
        fails(
            &ROWS.replace("`kit` |\n", " |\n"),
            "the tests of high may not use kit: the table of crates does not say so",
        );
    }

    #[test]
    fn what_tests_may_use_builds_may_not() {
        fails(
            &ROWS.replace("`low` `gen` | `kit`", "`gen` | `kit` `low`"),
            "high may not use low: its Cargo.toml says so, the table of crates does not",
        );
    }

    #[test]
    fn rows_without_a_crate_and_crates_without_a_row_fail() {
        fails(
            &format!("{ROWS}| `gone` | | |\n"),
            "the table of crates has a row for gone, which does not exist",
        );
        fails(
            &ROWS.replace("`low` | |", "`low` | `gone` |"),
            "the row of low in the table of crates names gone, which does not exist",
        );
        fails(&ROWS.replace("| `kit` | – | – |\n", ""), "the table of crates has no row for kit");
    }

    #[test]
    fn a_table_that_cannot_be_read_fails() {
        let problem = |page: &str| check(&metadata(), page)[0].message.clone();
        assert_eq!(problem("# Page"), format!("it has no line \"{MARK}\""));
        assert_eq!(problem(&page("")), "the table of crates has no rows");
        assert!(problem(&page("| `low` | |\n")).contains("three columns"));
        assert!(problem(&page("| `low` | | |\n| `low` | | |\n")).contains("two rows for low"));
    }
}
