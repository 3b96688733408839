//! Checks names, lengths and contents of files.

use super::Finding;
use super::source::{code, line, test_blocks, words};

/// File names that say nothing about the content.
const VAGUE: [&str; 7] = ["mod", "util", "utils", "common", "helper", "helpers", "misc"];

const WARN_LINES: usize = 400;
const MAX_LINES: usize = 800;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Ignored,
    ForeignModule,
    Unsafe,
    Sleep,
}

/// Files that are exempt from a rule, with the reason.
const EXCEPTIONS: [(Rule, &str, &str); 6] = [
    (Rule::ForeignModule, "fuzz/src/client.rs", "the atoll crate has no library"),
    (Rule::ForeignModule, "fuzz/src/fleet.rs", "the atoll crate has no library"),
    (Rule::Ignored, "crates/sqlite/tests/durability/killed.rs", "a process that other tests start and kill"),
    (Rule::Unsafe, "crates/sqlite/tests/durability/disk/vfs.rs", "a SQLite VFS is a table of C functions"),
    (Rule::Sleep, "crates/syncer/tests/faults/time.rs", "simulated time, which passes at once"),
    (Rule::Sleep, "crates/testkit/src/wait.rs", "the one place where tests poll, with a deadline"),
];

/// Marks unfinished work. Split, so that this file does not contain it.
const MARKER: &str = concat!("FIX", "ME");

/// Directories that exist on one machine only. Split for the same reason.
const MACHINE_PATHS: [&str; 6] = [
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
    concat!("/tmp/", "wt"),
    concat!("/tmp/", "target"),
];

/// Returns all findings about the file at `path`, relative to the root.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(marker(path, text));
    findings.extend(machine_paths(path, text));
    match path.rsplit_once('.') {
        Some((_, "rs")) => {
            findings.extend(name(path));
            findings.extend(length(path, text));
            findings.extend(rust(path, text));
        }
        Some((_, "py")) => findings.extend(foreign_sleep(path, text, "time.sleep(")),
        Some((_, "go")) => findings.extend(foreign_sleep(path, text, "time.Sleep(")),
        _ => {}
    }
    findings
}

fn name(path: &str) -> Option<Finding> {
    let vague = path.trim_end_matches(".rs").split('/').find(|part| VAGUE.contains(part))?;
    let advice = match vague {
        "mod" => "put the module beside its directory, as foo.rs beside foo/",
        _ => "name it after its content",
    };
    Some(Finding::error(path, format!("\"{vague}\" says nothing about the content: {advice}")))
}

fn length(path: &str, text: &str) -> Option<Finding> {
    match text.lines().count() {
        lines if lines > MAX_LINES => {
            Some(Finding::error(path, format!("{lines} lines, but the limit is {MAX_LINES}: split the file")))
        }
        lines if lines > WARN_LINES => {
            Some(Finding::warning(path, format!("{lines} lines; most files have fewer than {WARN_LINES}")))
        }
        _ => None,
    }
}

fn marker(path: &str, text: &str) -> Vec<Finding> {
    let found = words(text, MARKER).map(|position| {
        Finding::error(at(path, text, position), format!("resolve the {MARKER} or replace it with a reason"))
    });
    found.collect()
}

fn machine_paths(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for machine_path in MACHINE_PATHS {
        for (position, _) in text.match_indices(machine_path) {
            // Skip matches inside a longer path, such as /clusters/root/api.
            let inside = |character: char| character.is_alphanumeric() || "_-./}*:~$".contains(character);
            if text[..position].chars().next_back().is_some_and(inside) {
                continue;
            }
            let message = format!("{machine_path} exists on one machine only");
            findings.push(Finding::error(at(path, text, position), message));
        }
    }
    findings
}

fn rust(path: &str, text: &str) -> Vec<Finding> {
    let code = code(text);
    let mut findings = Vec::new();
    let mut report = |found: &mut dyn Iterator<Item = usize>, message: &str| {
        findings.extend(found.map(|position| Finding::error(at(path, &code, position), message)));
    };
    for unfinished in ["todo!", "unimplemented!"] {
        report(&mut words(&code, unfinished), &format!("{unfinished} must be replaced by an implementation"));
    }
    if !is_excepted(Rule::Ignored, path) {
        let mut ignored = code.match_indices("#[ignore").map(|(position, _)| position);
        report(&mut ignored, "tests must not be ignored: fix or remove the test");
    }
    if !is_excepted(Rule::ForeignModule, path) {
        let message = "#[path] must not leave the crate: share the code through a crate";
        report(&mut foreign_modules(path, &code, text), message);
    }
    if !is_excepted(Rule::Unsafe, path) {
        let message = "unsafe is allowed only in the files listed in xtask/src/tidy/files.rs";
        report(&mut words(&code, "unsafe"), message);
    }
    if !is_excepted(Rule::Sleep, path) {
        let blocks = test_blocks(&code);
        let in_test = |position: &usize| is_test(path) || blocks.iter().any(|block| block.contains(position));
        let message = "tests must not sleep: wait for a condition with atoll_testkit::wait";
        for call in ["sleep", "sleep_until"] {
            report(&mut words(&code, call).filter(in_test), message);
        }
    }
    findings
}

/// Returns the positions in `code` of `#[path]` attributes that name a file of another crate. The file's name
/// is in `text`, from which `code` was made.
fn foreign_modules<'a>(path: &'a str, code: &'a str, text: &'a str) -> impl Iterator<Item = usize> + 'a {
    let attributes = code.match_indices("#[path").map(|(position, _)| position);
    attributes.filter(move |position| {
        let attribute = text.lines().nth(line(code, *position) - 1).unwrap_or_default();
        let target = attribute.split('"').nth(1).unwrap_or_default();
        target.starts_with('/') || resolved(path, target).is_none_or(|file| root_of(&file) != root_of(path))
    })
}

/// Returns the file that a file names relative to its directory. Returns `None` outside the repository.
fn resolved(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the directory of the crate that a file belongs to: `crates/meta`, `fuzz`.
fn root_of(path: &str) -> Vec<&str> {
    path.split('/').take(if path.starts_with("crates/") { 2 } else { 1 }).collect()
}

fn foreign_sleep(path: &str, text: &str, call: &str) -> Vec<Finding> {
    if !is_test(path) {
        return Vec::new();
    }
    let found = text.match_indices(call).map(|(position, _)| {
        Finding::error(at(path, text, position), "tests must not sleep: wait for a condition")
    });
    found.collect()
}

/// Whether the whole file is test code.
fn is_test(path: &str) -> bool {
    let test_directories = ["tests", "suite", "testkit"];
    path.trim_end_matches(".rs").split('/').any(|part| test_directories.contains(&part))
}

fn is_excepted(rule: Rule, path: &str) -> bool {
    EXCEPTIONS.iter().any(|(excepted, file, _)| *excepted == rule && *file == path)
}

fn at(path: &str, text: &str, position: usize) -> String {
    format!("{path}:{}", line(text, position))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the errors as `location: message`.
    fn errors(path: &str, text: &str) -> Vec<String> {
        check(path, text).iter().filter(|finding| !finding.warning).map(ToString::to_string).collect()
    }

    #[track_caller]
    fn fails(path: &str, text: &str, location: &str, words: &str) {
        let errors = errors(path, text);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with(&format!("{location}: ")) && errors[0].contains(words), "{errors:?}");
    }

    #[track_caller]
    fn passes(path: &str, text: &str) {
        assert_eq!(errors(path, text), Vec::<String>::new());
    }

    #[test]
    fn file_names_describe_their_content() {
        fails("crates/a/src/b/mod.rs", "", "crates/a/src/b/mod.rs", "foo.rs beside foo/");
        fails("crates/a/src/util.rs", "", "crates/a/src/util.rs", "\"util\"");
        fails("crates/a/tests/common/server.rs", "", "crates/a/tests/common/server.rs", "\"common\"");
        fails("crates/a/src/helpers.rs", "", "crates/a/src/helpers.rs", "\"helpers\"");
        passes("crates/a/src/model.rs", "");
        passes("docs/common.md", "");
    }

    #[test]
    fn long_files_fail() {
        passes("a.rs", &"\n".repeat(MAX_LINES));
        fails("a.rs", &"\n".repeat(MAX_LINES + 1), "a.rs", "801 lines");
        assert!(check("a.rs", &"\n".repeat(WARN_LINES)).is_empty());
        assert!(check("a.rs", &"\n".repeat(WARN_LINES + 1))[0].warning);
        assert!(check("data.txt", &"\n".repeat(MAX_LINES + 1)).is_empty());
    }

    #[test]
    fn modules_belong_to_their_crate() {
        let module = |file: &str| format!("// A module.\n#[path = \"{file}\"]\nmod a;");
        for outside in ["../../b/tests/c.rs", "../../../fuzz/src/c.rs", "../../../../c.rs", "/c.rs"] {
            fails("crates/a/tests/c.rs", &module(outside), "crates/a/tests/c.rs:2", "leave the crate");
        }
        fails("xtask/src/a.rs", &module("../../fuzz/src/a.rs"), "xtask/src/a.rs:2", "leave the crate");
        passes("crates/a/tests/c.rs", &module("c/d.rs"));
        passes("crates/a/tests/c.rs", &module("./../src/d.rs"));
        passes("crates/a/tests/c/main.rs", &module("../support/d.rs"));
        passes("crates/a/src/c.rs", "const TEXT: &str = \"#[path = '../../b']\";");
        passes("fuzz/src/client.rs", &module("../../crates/atoll/src/a.rs"));
    }

    #[test]
    fn unfinished_work_fails() {
        fails("a.rs", "fn a() {\n    todo!()\n}", "a.rs:2", "must be replaced");
        fails("a.rs", "unimplemented!(\"x\")", "a.rs:1", "must be replaced");
        fails("a.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}", "a.rs:2", "must not be ignored");
        fails("a.md", &format!("x\n{MARKER}: later"), "a.md:2", MARKER);
        passes("crates/sqlite/tests/durability/killed.rs", "#[ignore]");
        passes("a.rs", "// todo! is for others\nlet a = \"#[ignore]\";");
    }

    #[test]
    fn unsafe_code_fails_outside_of_listed_files() {
        fails("a.rs", "fn a() {\n    unsafe { b() }\n}", "a.rs:2", "is allowed only");
        passes("a.rs", "#![allow(unsafe_code)] // unsafe");
        passes("crates/sqlite/tests/durability/disk/vfs.rs", "unsafe fn a() {}");
    }

    #[test]
    fn tests_must_not_sleep() {
        let call = "std::thread::sleep(second);";
        fails("crates/a/tests/b.rs", call, "crates/a/tests/b.rs:1", "must not sleep");
        fails("crates/a/src/b/tests.rs", "use tokio::time::sleep;", "crates/a/src/b/tests.rs:1", "sleep");
        fails("crates/a/tests/b.rs", "tokio::time::sleep_until(then)", "crates/a/tests/b.rs:1", "sleep");
        fails("crates/testkit/src/server.rs", call, "crates/testkit/src/server.rs:1", "sleep");
        let block = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{call}\n}}");
        fails("crates/a/src/b.rs", &block, "crates/a/src/b.rs:4", "must not sleep");
        fails("crates/a/tests/b.py", "time.sleep(1)", "crates/a/tests/b.py:1", "must not sleep");
        fails("crates/a/tests/b.go", "time.Sleep(1)", "crates/a/tests/b.go:1", "must not sleep");
        passes("crates/a/src/b.rs", call);
        passes("crates/testkit/src/wait.rs", call);
    }

    #[test]
    fn machine_specific_paths_fail() {
        for path in MACHINE_PATHS {
            let text = format!("ok\ncd {path}x");
            let findings = check("a.sh", &text);
            assert_eq!(findings.len(), 1, "{path}");
            assert_eq!(findings[0].location, "a.sh:2");
        }
        passes("a.md", concat!("/clusters/ro", "ot/api and {}/ho", "me/x and $HOME/wo", "rk/"));
    }
}
