//! The exit status of a session, which is sent last on its error stream.

// upstream: staging/src/k8s.io/client-go/tools/remotecommand/v4.go
// upstream: staging/src/k8s.io/client-go/tools/remotecommand/errorstream.go

use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecStatus {
    Success,
    /// A command with a non-zero exit code.
    Exit {
        code: i32,
        message: String,
    },
    /// Another error.
    Failure(String),
}

/// The format of the error stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFormat {
    /// A `Status`, since version 4.
    Json,
    /// An error message, before version 4.
    Text,
}

/// The reason in a `Status` for a non-zero exit code.
const EXITED: &str = "NonZeroExitCode";
const EXIT_CODE: &str = "ExitCode";

impl ExecStatus {
    pub fn exit(code: i32) -> ExecStatus {
        match code {
            0 => ExecStatus::Success,
            code => ExecStatus::Exit { code, message: format!("exit status {code}") },
        }
    }

    pub fn encode(&self, format: StatusFormat) -> Vec<u8> {
        let status = match self {
            ExecStatus::Success if format == StatusFormat::Text => return Vec::new(),
            ExecStatus::Success => json!({ "metadata": {}, "status": "Success" }),
            ExecStatus::Exit { code, message } => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("command terminated with non-zero exit code: {message}"),
                "reason": EXITED,
                "details": { "causes": [{ "reason": EXIT_CODE, "message": code.to_string() }] },
            }),
            ExecStatus::Failure(message) => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("Internal error occurred: {message}"),
                "reason": "InternalError",
                "details": { "causes": [{ "message": message }] },
                "code": 500,
            }),
        };
        match format {
            StatusFormat::Json => status.to_string().into_bytes(),
            StatusFormat::Text => status["message"].as_str().unwrap_or_default().as_bytes().to_vec(),
        }
    }

    /// Parses the error stream of a kubelet, as upstream's clients do.
    pub fn decode(bytes: &[u8], format: StatusFormat) -> ExecStatus {
        if bytes.is_empty() {
            return ExecStatus::Success;
        }
        let text = || String::from_utf8_lossy(bytes).into_owned();
        if format == StatusFormat::Text {
            return ExecStatus::Failure(format!("error executing remote command: {}", text()));
        }
        let broken = |problem: &str| ExecStatus::Failure(format!("error stream protocol error: {problem}"));
        let Ok(status) = serde_json::from_slice::<Value>(bytes) else {
            return broken(&format!("invalid status in {:?}", text()));
        };
        match status["status"].as_str() {
            Some("Success") => return ExecStatus::Success,
            Some("Failure") => {}
            _ => return broken("unknown error"),
        }
        if status["reason"] != EXITED {
            return ExecStatus::Failure(status["message"].as_str().unwrap_or_default().into());
        }
        let Some(details) = status["details"].as_object() else { return broken("details must be set") };
        let causes = details.get("causes").and_then(Value::as_array).into_iter().flatten();
        let Some(cause) = causes.into_iter().find(|cause| cause["reason"] == EXIT_CODE) else {
            return broken("no ExitCode cause given");
        };
        let code = cause["message"].as_str().unwrap_or_default();
        match code.parse::<u8>() {
            Ok(code) => {
                let message = format!("command terminated with exit code {code}");
                ExecStatus::Exit { code: code.into(), message }
            }
            Err(_) => broken(&format!("invalid exit code value {code:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_status_round_trips() {
        let exit = ExecStatus::exit(3);
        let told = String::from_utf8(exit.encode(StatusFormat::Json)).unwrap();
        let expected = concat!(
            r#"{"details":{"causes":[{"message":"3","reason":"ExitCode"}]},"#,
            r#""message":"command terminated with non-zero exit code: exit status 3","metadata":{},"#,
            r#""reason":"NonZeroExitCode","status":"Failure"}"#
        );
        assert_eq!(
            serde_json::from_str::<Value>(&told).unwrap(),
            serde_json::from_str::<Value>(expected).unwrap()
        );
        let message = "command terminated with exit code 3".to_string();
        let cases: [(&[u8], ExecStatus); 8] = [
            (b"", ExecStatus::Success),
            (br#"{"status":"Success"}"#, ExecStatus::Success),
            (told.as_bytes(), ExecStatus::Exit { code: 3, message }),
            (br#"{"status":"Failure","message":"no"}"#, ExecStatus::Failure("no".into())),
            (b"{}", ExecStatus::Failure("error stream protocol error: unknown error".into())),
            (b"no", ExecStatus::Failure("error stream protocol error: invalid status in \"no\"".into())),
            (
                br#"{"status":"Failure","reason":"NonZeroExitCode"}"#,
                ExecStatus::Failure("error stream protocol error: details must be set".into()),
            ),
            (
                br#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"x"}]}}"#,
                ExecStatus::Failure("error stream protocol error: invalid exit code value \"x\"".into()),
            ),
        ];
        for (bytes, expected) in cases {
            assert_eq!(ExecStatus::decode(bytes, StatusFormat::Json), expected);
        }
        assert_eq!(ExecStatus::Success.encode(StatusFormat::Text), b"");
        let failed = ExecStatus::Failure("broken".into());
        assert_eq!(failed.encode(StatusFormat::Text), b"Internal error occurred: broken");
    }
}
