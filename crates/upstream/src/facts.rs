//! Runs `upstream/facts`, which needs fewer modules than the other programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::{DIRECTORY, answers, skip};

/// Returns the answers of `upstream/facts` in a mode, which is built in the directory `target`. Returns
/// `None`, with a printed reason, without Go or its modules; with `ATOLL_REQUIRE_UPSTREAM` set that is a
/// failure instead.
pub fn ask_facts(
    target: &Path,
    mode: &str,
    questions: impl IntoIterator<Item = Value>,
) -> Option<Vec<Value>> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match PROGRAM.get_or_init(|| program(target)) {
        Ok(program) => Some(answers(Command::new(program).arg(mode), questions)),
        Err(reason) => {
            skip(reason);
            None
        }
    }
}

/// The text of an object and the kind to decode it as.
pub struct RoundTrip {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub text: String,
    /// Whether it is also converted to protobuf, as when it is stored.
    pub protobuf: bool,
}

/// Returns the results of decoding and encoding objects in Go, as [`ask_facts`] does.
pub fn round_trip(target: &Path, cases: &[RoundTrip]) -> Option<Vec<Value>> {
    let questions = cases.iter().map(|RoundTrip { group, version, kind, text, protobuf }| {
        json!({"group": group, "version": version, "kind": kind, "text": text, "protobuf": protobuf})
    });
    ask_facts(target, "roundtrip", questions)
}

/// Builds the program, unless the last build is newer than its sources.
fn program(target: &Path) -> Result<PathBuf, String> {
    let sources = Path::new(DIRECTORY).join("facts");
    let program = target.join("facts");
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
    // A concurrent run may be using the old program: build to another path and rename.
    let beside = program.with_extension(std::process::id().to_string());
    let output = beside.to_str().ok_or("the target directory's name is not text")?;
    let built = go(&["build", "-o", output, "."]).map_err(|error| error.to_string())?;
    assert!(built.status.success(), "go build failed: {}", String::from_utf8_lossy(&built.stderr));
    fs::rename(&beside, &program).map_err(|error| error.to_string())?;
    Ok(program)
}
