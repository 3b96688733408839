//! Parses test cases.
//!
//! ```text
//! # a comment
//! === name of the case
//! POST /api/v1/namespaces/x/configmaps?dryRun=All
//! Accept: application/yaml
//! @keep revision /metadata/resourceVersion
//!
//! {"the body": "up to the next case"}
//! ```
//!
//! Besides HTTP's methods there are MERGE, JSONPATCH, STRATEGIC and APPLY (PATCH of that type), OPEN (`OPEN w
//! path` starts a watch) and READ (`READ w 3` reads three events of it, `READ w end` reads it to its end).
//! `${name}` is the value that `@keep` kept from an earlier response, for each server its own;
//! `${text*count}` repeats a text. Other directives: `@anonymous` sends no token, `@untyped` no Content-Type,
//! `@hex` marks a hexadecimal body, `@compare shape` compares types instead of values, `@compare common`
//! compares only items that both servers list, `@until 404` repeats the request until the response has that
//! status, `@until /pointer value` until the value at the pointer is equal, `@until /pointer` until the
//! pointer exists.

/// One request, or one step of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub name: String,
    pub step: CaseStep,
    /// Variables to set from the response, each with a JSON pointer.
    pub keep: Vec<(String, String)>,
    pub comparison: Comparison,
    /// The condition of `@until`.
    pub retry_until: Option<RetryUntil>,
}

/// A condition on the response; the request is repeated until it is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryUntil {
    Status(u16),
    /// The JSON pointer exists.
    Present(String),
    /// The JSON pointer has this value.
    Value(String, String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseStep {
    Request(Request),
    Open { watch: String, path: String },
    Read { watch: String, until: ReadUntil },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    pub anonymous: bool,
    pub hexadecimal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadUntil {
    Events(usize),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Comparison {
    #[default]
    Whole,
    Shape,
    Common,
}

/// Parses all cases of a file, in order.
pub fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for block in format!("\n{text}").split("\n=== ").skip(1) {
        let (name, rest) = block.split_once('\n').unwrap_or((block, ""));
        cases.push(case(name.trim(), rest).map_err(|problem| format!("{name}: {problem}"))?);
    }
    Ok(cases)
}

fn case(name: &str, rest: &str) -> Result<Case, String> {
    let (head, body) = rest.split_once("\n\n").unwrap_or((rest, ""));
    let mut lines = head.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let first = lines.next().ok_or("the request line is missing")?;
    let (method, target) = first.split_once(' ').ok_or("the path is missing")?;
    let mut case = Case {
        name: name.to_string(),
        step: step(method, target, body.trim_end_matches('\n'))?,
        keep: Vec::new(),
        comparison: Comparison::Whole,
        retry_until: None,
    };
    let mut untyped = false;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.as_slice(), &mut case.step) {
            (["@keep", variable, pointer], _) => case.keep.push((variable.to_string(), pointer.to_string())),
            (["@compare", "shape"], _) => case.comparison = Comparison::Shape,
            (["@compare", "common"], _) => case.comparison = Comparison::Common,
            (["@until", pointer], CaseStep::Request(_)) if pointer.starts_with('/') => {
                case.retry_until = Some(RetryUntil::Present(pointer.to_string()));
            }
            (["@until", code], CaseStep::Request(_)) => {
                let code = code.parse().map_err(|_| format!("{code:?} is not a status code"))?;
                case.retry_until = Some(RetryUntil::Status(code));
            }
            (["@until", pointer, value], CaseStep::Request(_)) => {
                case.retry_until = Some(RetryUntil::Value(pointer.to_string(), value.to_string()));
            }
            (["@anonymous"], CaseStep::Request(request)) => request.anonymous = true,
            (["@hex"], CaseStep::Request(request)) => request.hexadecimal = true,
            (["@untyped"], CaseStep::Request(_)) => untyped = true,
            (_, CaseStep::Request(request)) if !line.starts_with('@') => {
                let (name, value) =
                    line.split_once(':').ok_or_else(|| format!("{line:?} is not a header"))?;
                request.headers.push((name.to_lowercase(), value.trim().to_string()));
            }
            _ => return Err(format!("unknown directive {line:?}")),
        }
    }
    if let CaseStep::Request(request) = &mut case.step {
        request.add_type(method, untyped);
    }
    Ok(case)
}

fn step(method: &str, target: &str, body: &str) -> Result<CaseStep, String> {
    let two = || {
        target.split_once(' ').ok_or_else(|| format!("{method} needs the name of a watch and an argument"))
    };
    Ok(match method {
        "OPEN" => {
            let (watch, path) = two()?;
            CaseStep::Open { watch: watch.into(), path: path.into() }
        }
        "READ" => {
            let (watch, until) = two()?;
            let until = match until {
                "end" => ReadUntil::End,
                count => ReadUntil::Events(count.parse().map_err(|_| format!("{count:?} is not a number"))?),
            };
            CaseStep::Read { watch: watch.into(), until }
        }
        _ => CaseStep::Request(Request {
            method: if matches!(method, "MERGE" | "JSONPATCH" | "STRATEGIC" | "APPLY") {
                "PATCH"
            } else {
                method
            }
            .into(),
            path: target.into(),
            headers: Vec::new(),
            body: body.into(),
            anonymous: false,
            hexadecimal: false,
        }),
    })
}

impl Request {
    /// Adds the default Content-Type of the method.
    fn add_type(&mut self, method: &str, untyped: bool) {
        let named = self.headers.iter().any(|(name, _)| name == "content-type");
        let media = match method {
            "MERGE" => "application/merge-patch+json",
            "JSONPATCH" => "application/json-patch+json",
            "STRATEGIC" => "application/strategic-merge-patch+json",
            "APPLY" => "application/apply-patch+yaml",
            _ if self.body.is_empty() => return,
            _ => "application/json",
        };
        if !named && !untyped {
            self.headers.push(("content-type".into(), media.into()));
        }
    }
}

/// Replaces the variables in `text`.
pub fn expand(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        expanded.push_str(before);
        // Repeated text may contain braces.
        let ends = behind.match_indices('}').map(|(end, _)| end);
        let replaced = ends.take(9).find_map(|end| {
            let name = &behind[..end];
            let repeated =
                name.rsplit_once('*').and_then(|(text, count)| Some(text.repeat(count.parse().ok()?)));
            repeated.or_else(|| variable(name)).map(|value| (value, &behind[end + 1..]))
        });
        let (value, after) = replaced.ok_or_else(|| {
            let shown: String = behind.chars().take(40).collect();
            format!("unknown variable {shown:?}")
        })?;
        expanded.push_str(&value);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_parsed() {
        let text = "# why\n=== one\nPOST /a\n@keep x /y\n\n{}\n\n=== two\nMERGE /b\nAccept: z\n\n{\"a\":\n1}\n\n=== three\nREAD w 2\n";
        let cases = parse(text).unwrap();
        let [one, two, three] = &cases[..] else { panic!("{cases:?}") };
        assert_eq!(one.keep, [("x".to_string(), "/y".to_string())]);
        let CaseStep::Request(request) = &one.step else { panic!("{one:?}") };
        assert_eq!((request.method.as_str(), request.body.as_str()), ("POST", "{}"));
        let CaseStep::Request(request) = &two.step else { panic!("{two:?}") };
        assert_eq!((request.method.as_str(), request.body.as_str()), ("PATCH", "{\"a\":\n1}"));
        let header = |name: &str, value: &str| (name.to_string(), value.to_string());
        let expected = [header("accept", "z"), header("content-type", "application/merge-patch+json")];
        assert_eq!(request.headers, expected);
        assert_eq!(three.step, CaseStep::Read { watch: "w".into(), until: ReadUntil::Events(2) });
    }

    #[test]
    fn invalid_cases_are_rejected() {
        for wrong in ["=== a\n", "=== a\nGET\n", "=== a\nGET /\n@nonsense\n", "=== a\nREAD w x\n"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn variables_are_replaced() {
        let kept = |name: &str| (name == "b").then(|| "<b>".to_string());
        assert_eq!(expand("/a/${b}?c=${xy*3}", kept).unwrap(), "/a/<b>?c=xyxyxy");
        assert_eq!(expand("[${{},*2}{}]", kept).unwrap(), "[{},{},{}]");
        assert!(expand("${c}", kept).is_err());
    }
}
