//! Our reading of random objects of every kind against Go's own, values and messages alike.
//!
//! The objects come from the facts by a seeded generator, some of them valid and most with mistakes. Go answers through
//! `upstream/facts roundtrip`; without Go, or where its modules cannot be fetched, the comparison is skipped and says so,
//! or fails if `ATOLL_REQUIRE_UPSTREAM` is set.
//!
//! Known differences, which the generator leaves out:
//! - A struct or map field that stands twice: Go decodes the second over the first and so merges them; here the last
//!   counts. (Strict reading refuses both.)
//! - A mistake in a value whose key comes again: Go reads both values, here only the last is looked at.
//! - A quantity with an escape in its string: Go does not unescape it there.
//! - A number beyond a float64, as 1e400, in a field that keeps raw JSON: Go keeps it, here it is refused.
//! - More than 512 levels of nesting: Go permits 10000.

#[path = "upstream/generator.rs"]
mod generator;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;
use std::{fs, thread};

use atoll_schema::{Types, decode, resources, through_protobuf};
use generator::Generator;
use serde_json::{Value, json};

struct Question {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    text: String,
    protobuf: bool,
}

#[test]
fn random_objects_are_read_as_go_reads_them() {
    compare(&questions(seed()));
}

#[test]
fn quantities_and_times_are_written_as_go_writes_them() {
    let mut generator = Generator::new(seed() ^ 0xbeef);
    let mut questions = Vec::new();
    for _ in 0..1500 {
        let text = format!(
            r#"{{"spec":{{"capacity":{{"a":{}}}}},"status":{{"lastPhaseTransitionTime":{}}}}}"#,
            generator.quantity(),
            generator.time()
        );
        questions.push(Question {
            group: "",
            version: "v1",
            kind: "PersistentVolume",
            text,
            protobuf: false,
        });
        let text = format!(r#"{{"spec":{{"renewTime":{}}}}}"#, generator.micro_time());
        questions.push(Question {
            group: "coordination.k8s.io",
            version: "v1",
            kind: "Lease",
            text,
            protobuf: false,
        });
    }
    compare(&questions);
}

#[test]
fn stored_objects_lose_what_they_lose_in_go() {
    let types = Types::get();
    let mut generator = Generator::new(seed() ^ 0x5707ed);
    let mut questions = Vec::new();
    for row in resources().iter().filter(|row| row.verbs.contains(&"list") && !stored_as_json(row.group)) {
        let id = row.type_id.expect("a listed resource has a type");
        for _ in 0..12 {
            let text = generator.object(types, id, 0);
            questions.push(Question {
                group: row.group,
                version: row.version,
                kind: row.kind,
                text,
                protobuf: true,
            });
        }
    }
    compare(&questions);
}

fn stored_as_json(group: &str) -> bool {
    matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io")
}

/// Another seed may be tried as ATOLL_SEED=7.
fn seed() -> u64 {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5eed);
    println!("seed {seed}");
    seed
}

/// A few objects of every kind, and some of them damaged as text.
fn questions(seed: u64) -> Vec<Question> {
    let types = Types::get();
    let mut generator = Generator::new(seed);
    let mut questions = Vec::new();
    for (group, version, kind, id) in types.kinds() {
        for mistakes in [0, 0, 3, 10, 10, 30, 30, 30, 100] {
            let text = generator.object(types, id, mistakes);
            if mistakes == 3 {
                let text = generator.damage(&text);
                questions.push(Question { group, version, kind, text, protobuf: false });
            }
            questions.push(Question { group, version, kind, text, protobuf: false });
        }
    }
    questions
}

fn compare(questions: &[Question]) {
    let Some(answers) = ask(questions) else { return };
    assert_eq!(answers.len(), questions.len(), "one answer per question");
    let types = Types::get();
    let mut differences = Vec::new();
    let (mut valid, mut strict) = (0, 0);
    for (question, answer) in questions.iter().zip(&answers) {
        let id = types.by_kind(question.group, question.version, question.kind).expect("a kind of ours");
        let ours = match decode(types, id, question.text.as_bytes()) {
            Ok(mut decoded) => {
                if question.protobuf {
                    through_protobuf(types, id, &mut decoded.value);
                }
                let remarks: Vec<String> = decoded.remarks.iter().map(ToString::to_string).collect();
                if remarks.is_empty() {
                    json!({"value": decoded.value})
                } else {
                    json!({"strict": remarks, "value": decoded.value})
                }
            }
            Err(error) => json!({"error": error.to_string()}),
        };
        // With remarks Go's answer has no value: the decoder gives up the object.
        valid += usize::from(answer.get("error").is_none());
        strict += usize::from(answer.get("strict").is_some());
        if ours != *answer {
            differences.push(format!("{} {}\n  go   {answer}\n  ours {ours}", question.kind, question.text));
        }
    }
    println!("{} objects, {valid} read by Go, {strict} of them with remarks", questions.len());
    assert!(valid > questions.len() / 5, "too few objects were read to tell anything");
    assert!(
        differences.is_empty(),
        "{} of {} differ:\n{}",
        differences.len(),
        questions.len(),
        differences.iter().take(4).map(String::as_str).collect::<Vec<_>>().join("\n")
    );
}

/// Go's answers, or nothing where there is no Go.
fn ask(questions: &[Question]) -> Option<Vec<Value>> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let program = match PROGRAM.get_or_init(program) {
        Ok(program) => program,
        Err(reason) => {
            assert!(std::env::var_os("ATOLL_REQUIRE_UPSTREAM").is_none(), "Go is required here: {reason}");
            println!("skipped: {reason}");
            return None;
        }
    };
    let mut input = String::new();
    for Question { group, version, kind, text, protobuf } in questions {
        input.push_str(
            &json!({"group": group, "version": version, "kind": kind, "text": text, "protobuf": protobuf})
                .to_string(),
        );
        input.push('\n');
    }
    let mut child = Command::new(program)
        .arg("roundtrip")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the built program runs");
    let mut stdin = child.stdin.take().expect("its input is piped");
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("the writer ends").expect("the program reads its input");
    assert!(output.status.success(), "facts roundtrip failed");
    let text = String::from_utf8(output.stdout).expect("answers are text");
    Some(text.lines().map(|line| serde_json::from_str(line).expect("an answer is JSON")).collect())
}

/// Builds `upstream/facts`, unless the last build is newer than its sources.
fn program() -> Result<PathBuf, String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../upstream/facts");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("facts");
    let changed = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let newest: Option<SystemTime> = fs::read_dir(&sources)
        .map_err(|error| format!("{}: {error}", sources.display()))?
        .filter_map(|entry| changed(&entry.ok()?.path()))
        .max();
    if changed(&program) > newest {
        return Ok(program);
    }
    let go = |arguments: &[&str]| Command::new("go").args(arguments).current_dir(&sources).output();
    let fetched = go(&["mod", "download"]).map_err(|error| format!("Go is not installed ({error})"))?;
    if !fetched.status.success() {
        return Err(format!("Go's modules cannot be fetched: {}", String::from_utf8_lossy(&fetched.stderr)));
    }
    // Another run may be using the old one: build beside it and move into place.
    let beside = program.with_extension(std::process::id().to_string());
    let output = beside.to_str().ok_or("the target directory's name is not text")?;
    let built = go(&["build", "-o", output, "."]).map_err(|error| error.to_string())?;
    assert!(built.status.success(), "go build failed: {}", String::from_utf8_lossy(&built.stderr));
    fs::rename(&beside, &program).map_err(|error| error.to_string())?;
    Ok(program)
}
