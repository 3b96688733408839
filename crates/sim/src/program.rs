//! Programs of simulated containers: a few well-known commands are interpreted, all others run as servers.

use atoll_meta::object;
use serde_json::Value;

/// Annotations of a pod that define when its containers exit.
pub const EXIT_AFTER: &str = "sim.atoll.dev/exit-after";
pub const EXIT_CODE: &str = "sim.atoll.dev/exit-code";

/// Behaviour of a container after its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Initial output.
    pub output: Vec<String>,
    /// When and how it ends; `None` for a server that runs until it is stopped.
    pub ends: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Milliseconds after its start.
    pub after: u64,
    pub code: i32,
}

/// Returns the program of a container of `pod`.
pub fn of(container: &Value, pod: &Value) -> Program {
    if let Some(after) = object::annotation(pod, EXIT_AFTER).and_then(milliseconds) {
        let code = object::annotation(pod, EXIT_CODE).and_then(|code| code.parse().ok()).unwrap_or(0);
        return Program { output: Vec::new(), ends: Some(End { after, code }) };
    }
    let words: Vec<&str> = ["command", "args"]
        .iter()
        .flat_map(|field| container[field].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    match words.split_first() {
        // The default program of an image in a Job is assumed to finish immediately.
        None if object::controller_of(pod).is_some_and(|owner| owner.kind == "Job") => {
            Program { output: Vec::new(), ends: Some(End { after: 0, code: 0 }) }
        }
        None => Program::default(),
        Some((command, rest)) => run(command, rest, &|name| variable(container, pod, name)),
    }
}

/// Returns an environment variable of a container: a value, or a field of its pod.
fn variable(container: &Value, pod: &Value, name: &str) -> Option<String> {
    let entry = container["env"].as_array()?.iter().find(|entry| entry["name"] == name)?;
    if let Some(value) = entry["value"].as_str() {
        return Some(value.into());
    }
    let path = entry["valueFrom"]["fieldRef"]["fieldPath"].as_str()?;
    let value = match path.trim_end_matches("']").split_once("['") {
        Some(("metadata.labels", key)) => object::label(pod, key),
        Some(("metadata.annotations", key)) => object::annotation(pod, key),
        _ => pod.pointer(&format!("/{}", path.replace('.', "/"))).and_then(Value::as_str),
    };
    value.map(str::to_string)
}

type Variables<'a> = dyn Fn(&str) -> Option<String> + 'a;

fn run(command: &str, rest: &[&str], variables: &Variables<'_>) -> Program {
    let name = command.rsplit('/').next().unwrap_or(command);
    match (name, rest) {
        ("sh" | "bash" | "ash", [flag, script, ..]) if flag.starts_with('-') && flag.ends_with('c') => {
            shell(script, variables)
        }
        _ => {
            let mut words = vec![name];
            words.extend(rest);
            let mut program = Program { output: Vec::new(), ends: Some(End { after: 0, code: 0 }) };
            simple(&words, &mut program);
            program
        }
    }
}

/// Interprets a script of simple commands. Words may be variables.
fn shell(script: &str, variables: &Variables<'_>) -> Program {
    let mut program = Program { output: Vec::new(), ends: Some(End { after: 0, code: 0 }) };
    let joined = script.replace("&&", ";");
    for line in joined.split([';', '\n']) {
        let words: Vec<String> = line.split_whitespace().map(|word| expanded(word, variables)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            continue;
        }
        if simple(&words, &mut program) {
            break;
        }
    }
    program
}

fn expanded(word: &str, variables: &Variables<'_>) -> String {
    let plain = word.trim_matches('"');
    let name = plain.strip_prefix('$').map(|name| name.trim_start_matches('{').trim_end_matches('}'));
    name.map_or_else(|| word.to_string(), |name| variables(name).unwrap_or_default())
}

/// Executes one command. Returns whether it is the last.
fn simple(words: &[&str], program: &mut Program) -> bool {
    let Some(end) = &mut program.ends else { return true };
    match words {
        ["sleep", "infinity" | "inf"] => program.ends = None,
        ["sleep", time] => match milliseconds(time) {
            Some(time) => end.after = end.after.saturating_add(time),
            None => end.code = 1,
        },
        ["true" | ":"] => end.code = 0,
        ["false"] => end.code = 1,
        ["exit"] => return true,
        ["exit", code] => {
            end.code = code.parse().unwrap_or(2);
            return true;
        }
        ["echo", text @ ..] => {
            end.code = 0;
            program.output.push(text.join(" ").trim_matches(['"', '\'']).to_string());
        }
        // An unknown command is treated as a server.
        _ => program.ends = None,
    }
    program.ends.is_none()
}

/// Parses `3`, `1.5s`, `2m`, `100ms`, `1h` or a sequence of such, as milliseconds.
pub fn milliseconds(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut sum = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '.');
        let (number, unit) = rest.split_at(digits.unwrap_or(rest.len()));
        let number: f64 = number.parse().ok()?;
        let (factor, length) = match unit {
            unit if unit.starts_with("ms") => (1.0, 2),
            unit if unit.starts_with('s') => (1e3, 1),
            unit if unit.starts_with('m') => (6e4, 1),
            unit if unit.starts_with('h') => (3.6e6, 1),
            "" => (1e3, 0),
            _ => return None,
        };
        sum += number * factor;
        rest = &unit[length..];
    }
    // Limited to a year, so that sums do not overflow.
    Some(sum.min(3.2e10) as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn program(words: &[&str]) -> Program {
        of(&json!({"name": "c", "command": words}), &json!({"metadata": {"name": "p"}}))
    }

    #[test]
    fn known_commands_are_interpreted() {
        let ends = |after, code| Some(End { after, code });
        for (words, wanted) in [
            (&["sleep", "3"][..], ends(3000, 0)),
            (&["sleep", "infinity"], None),
            (&["/bin/true"], ends(0, 0)),
            (&["false"], ends(0, 1)),
            (&["sh", "-c", "exit 3"], ends(0, 3)),
            (&["/bin/sh", "-c", "sleep 1.5; exit 1"], ends(1500, 1)),
            (&["bash", "-ec", "echo hello && sleep 2m"], ends(120_000, 0)),
            (&["sh", "-c", "nginx -g 'daemon off;'"], None),
            (&["sh", "-c", "while true; do sleep 1; done"], None),
            (&["nginx"], None),
            (&["sleep", "soon"], ends(0, 1)),
        ] {
            assert_eq!(program(words).ends, wanted, "{words:?}");
        }
        assert_eq!(program(&["sh", "-c", "echo \"hello there\"; false"]).output, ["hello there"]);
    }

    #[test]
    fn annotations_and_jobs_define_the_exit() {
        let plain = json!({"name": "c", "image": "nginx"});
        let owner = json!([{"kind": "Job", "name": "j", "uid": "u", "controller": true}]);
        let of_job = json!({"metadata": {"name": "p", "ownerReferences": owner}});
        assert_eq!(of(&plain, &of_job).ends, Some(End { after: 0, code: 0 }));
        let annotations = json!({EXIT_AFTER: "200ms", EXIT_CODE: "7"});
        let annotated = json!({"metadata": {"name": "p", "annotations": annotations}});
        assert_eq!(of(&plain, &annotated).ends, Some(End { after: 200, code: 7 }));
        assert_eq!(of(&plain, &json!({})).ends, None);
    }

    #[test]
    fn variables_are_expanded() {
        let label = "batch.kubernetes.io/job-completion-index";
        let pod = json!({"metadata": {"name": "p", "labels": {label: "3"}, "annotations": {"code": "4"}}});
        let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
        let env = json!([
            {"name": "PLAIN", "value": "5"},
            {"name": "JOB_COMPLETION_INDEX", "valueFrom": field(&format!("metadata.labels['{label}']"))},
            {"name": "ANNOTATED", "valueFrom": field("metadata.annotations['code']")},
            {"name": "NAMED", "valueFrom": field("metadata.name")},
        ]);
        let of = |script: &str| of(&json!({"name": "c", "env": env, "command": ["sh", "-c", script]}), &pod);
        for (script, wanted) in [
            ("exit $PLAIN", 5),
            ("exit \"${PLAIN}\"", 5),
            ("exit $JOB_COMPLETION_INDEX", 3),
            ("true; exit ${ANNOTATED}", 4),
            ("exit $UNKNOWN", 0),
        ] {
            assert_eq!(of(script).ends, Some(End { after: 0, code: wanted }), "{script}");
        }
        assert_eq!(of("echo it is $NAMED").output, ["it is p"]);
    }

    #[test]
    fn times() {
        for (text, wanted) in [
            ("3", Some(3000)),
            ("1m30s", Some(90_000)),
            ("10ms", Some(10)),
            ("", None),
            ("x", None),
            ("-1", None),
        ] {
            assert_eq!(milliseconds(text), wanted, "{text}");
        }
        assert!(milliseconds("99999999999999999999999h").is_some());
    }
}
