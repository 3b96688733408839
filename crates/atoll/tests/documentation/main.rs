//! Runs the examples of the README and of every page in `docs/`, as a reader would type them.
//!
//! ```text
//!   page ─► blocks (console, yaml with `# file: NAME`) ─► one shell per page ─► output compared with the page
//! ```
//!
//! In expected output, a line `…` matches any number of lines, and `…` within a line any text. Times, ages, addresses
//! and uids always match each other. Servers run until the end of the page; commands that only read are repeated until
//! their output is as the page says.

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::unwrap_used)]

mod output;
mod page;
mod shell;

use std::path::{Path, PathBuf};

use atoll_testkit::Programs;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the examples of one page.
fn run(path: &str) {
    let Some(programs) = Programs::build(&["kubectl"]) else { return };
    let text = std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut shell = shell::Shell::start(programs.directory());
    for example in page::examples(&text) {
        match example {
            page::Example::File { name, content } => shell.write(&name, &content),
            page::Example::Command { command, expected } => shell.check(path, &command, &expected),
        }
    }
}

macro_rules! pages {
    ($($name:ident: $path:literal),* $(,)?) => {
        $(#[test]
        fn $name() {
            run($path);
        })*

        const PAGES: &[&str] = &[$($path),*];
    };
}

pages! {
    readme: "README.md",
    client: "docs/access.md",
    adoption: "docs/adoption.md",
    clusters: "docs/clusters.md",
    configuration: "docs/configuration.md",
    explain: "docs/explain.md",
    karmada: "docs/karmada.md",
    kcp: "docs/kcp.md",
    keys: "docs/keys.md",
    moving: "docs/moving.md",
    placement: "docs/placement.md",
    policies: "docs/policies.md",
    simulation: "docs/simulation.md",
    workspaces: "docs/workspaces.md",
}

/// A new page with examples must be added to the list above.
#[test]
fn every_page_with_examples_is_run() {
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let entry = entry.unwrap();
        let path = format!("docs/{}", entry.file_name().to_string_lossy());
        let text = std::fs::read_to_string(entry.path()).unwrap();
        if !page::examples(&text).is_empty() && !PAGES.contains(&path.as_str()) {
            missing.push(path);
        }
    }
    assert!(missing.is_empty(), "examples that no test runs: {missing:?}");
}
