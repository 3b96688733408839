//! Runs Go through `upstream/facts`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;
use std::{fs, thread};

use serde_json::{Value, json};

/// The text of an object and the kind to decode it as.
pub struct Case {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub text: String,
    /// Whether it is also converted to protobuf, as when it is stored.
    pub protobuf: bool,
}

/// Returns Go's results, or `None` without Go.
pub fn round_trip(cases: &[Case]) -> Option<Vec<Value>> {
    let lines = cases.iter().map(|Case { group, version, kind, text, protobuf }| {
        json!({"group": group, "version": version, "kind": kind, "text": text, "protobuf": protobuf})
    });
    run_tool("roundtrip", lines)
}

/// Runs `upstream/facts` in a mode with these inputs.
pub fn run_tool(mode: &str, cases: impl Iterator<Item = Value>) -> Option<Vec<Value>> {
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
    for case in cases {
        input.push_str(&case.to_string());
        input.push('\n');
    }
    let mut child = Command::new(program)
        .arg(mode)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("program starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("program terminates");
    writer.join().expect("writer thread does not panic").expect("program reads its input");
    assert!(output.status.success(), "facts {mode} failed");
    let text = String::from_utf8(output.stdout).expect("output is UTF-8");
    Some(text.lines().map(|line| serde_json::from_str(line).expect("output lines are JSON")).collect())
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
    // A concurrent run may be using the old program: build to another path and rename.
    let beside = program.with_extension(std::process::id().to_string());
    let output = beside.to_str().ok_or("the target directory's name is not text")?;
    let built = go(&["build", "-o", output, "."]).map_err(|error| error.to_string())?;
    assert!(built.status.success(), "go build failed: {}", String::from_utf8_lossy(&built.stderr));
    fs::rename(&beside, &program).map_err(|error| error.to_string())?;
    Ok(program)
}
