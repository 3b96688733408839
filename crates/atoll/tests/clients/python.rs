//! The Python client from PyPI. Without Python or PyPI the test prints so and passes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use atoll_testkit::Atoll;
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, config_map, config_map_with};

/// The release for Kubernetes 1.36.
const CLIENT: &str = "kubernetes==36.0.3";

/// Returns a Python with the client installed, or `None` with a printed reason.
fn python() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(CLIENT.replace("==", "-"));
    let python = place.join("bin/python");
    let complete = place.join("complete");
    if complete.exists() {
        return Some(python);
    }
    let step = |what: &str, command: &mut Command| {
        let problem = match command.output() {
            Ok(output) if output.status.success() => return true,
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        eprintln!("skipped: {what}: {}", problem.trim());
        false
    };
    let made =
        step("python3 cannot make an environment", Command::new("python3").args(["-m", "venv"]).arg(&place));
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", CLIENT];
    let ready = made && step("the Python client cannot be installed", Command::new(&python).args(pip));
    ready.then(|| {
        std::fs::write(&complete, "").unwrap();
        python
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn python_client_pages_watches_and_resumes_across_a_restart() {
    let Some(python) = python() else { return };
    let mut atoll = Atoll::start_bare();
    let admin = atoll.admin();
    for number in 0..100 {
        let mut object = config_map_with(&format!("object-{number:03}"), "0");
        object["metadata"]["labels"] = json!({ "half": if number % 2 == 0 { "even" } else { "odd" } });
        admin.post(CONFIG_MAPS, object).await.expect(201);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python/session.py");
    let mut child = Command::new(python)
        .arg(script)
        .arg(atoll.kubeconfig())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut says = || -> Value {
        let line = lines.next().expect("the script must print another line").unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let mut input = child.stdin.take().unwrap();

    let listed = says();
    let expected: Vec<String> = (0..100).map(|number| format!("object-{number:03}")).collect();
    assert_eq!(listed["names"], json!(expected));
    assert_eq!((&listed["pages"], &listed["selected"]), (&json!(3), &json!(50)));
    assert_eq!(
        listed["revisions"].as_array().unwrap().len(),
        1,
        "all pages must have one revision: {listed}"
    );
    assert_eq!(says(), json!({ "value": "1", "labels": null }));
    assert_eq!(says(), json!({ "code": 404, "reason": "NotFound" }));
    assert_eq!(says(), json!({ "watching": true }));

    admin.merge(&config_map("object-007"), json!({ "data": { "value": "1" } })).await.expect(200);
    admin.post(CONFIG_MAPS, config_map_with("stop-one", "0")).await.expect(201);
    writeln!(input).unwrap();
    assert_eq!(says(), json!({ "seen": [["MODIFIED", "object-007", "1"], ["ADDED", "stop-one", "0"]] }));

    // After resuming, changes from before, during and after the restart are complete.
    admin.merge(&config_map("object-007"), json!({ "data": { "value": "2" } })).await.expect(200);
    admin.delete(&config_map("object-008")).await.expect(200);
    atoll.kill();
    atoll.restart();
    let admin = atoll.admin();
    admin.merge(&config_map("object-007"), json!({ "data": { "value": "3" } })).await.expect(200);
    admin.post(CONFIG_MAPS, config_map_with("stop-two", "0")).await.expect(201);
    writeln!(input).unwrap();
    let seen = json!([
        ["MODIFIED", "object-007", "2"],
        ["DELETED", "object-008", "0"],
        ["MODIFIED", "object-007", "3"],
        ["ADDED", "stop-two", "0"],
    ]);
    assert_eq!(says(), json!({ "seen": seen }));
    assert!(child.wait().unwrap().success());
}
