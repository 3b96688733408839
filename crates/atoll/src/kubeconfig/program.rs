//! Credentials that another program prints, as those of cloud providers do for kubectl.

use std::path::Path;
use std::process::{Command, Stdio};

use atoll_client::kubeconfig::Program;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::advice::Failure;

/// Runs the program and gives what it says as a user of a kubeconfig has it. `base` is where the kubeconfig is.
pub fn credentials(program: &Program, base: &Path) -> Result<Value, Failure> {
    let failed = |what: String| {
        Failure::new(
            format!("{} gives no credentials: {what}", program.command),
            "see what it says by itself; kubectl uses it in the same way",
        )
    };
    // A name is looked for along PATH; a path is meant from where the kubeconfig is.
    let command = match program.command.contains('/') {
        true => base.join(&program.command),
        false => program.command.clone().into(),
    };
    let request = json!({ "apiVersion": program.api_version, "kind": "ExecCredential", "spec": { "interactive": false } });
    let output = Command::new(command)
        .args(&program.arguments)
        .envs(program.environment.iter().map(|(name, value)| (name, value)))
        .env("KUBERNETES_EXEC_INFO", request.to_string())
        .stdin(Stdio::null())
        // What it complains of is for whoever sits here.
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("it ended with {}", output.status)));
    }
    let said = atoll_meta::json::parse(&output.stdout).map(|parsed| parsed.value).unwrap_or_default();
    user(&said).ok_or_else(|| failed("it printed none".into()))
}

/// What an ExecCredential says.
fn user(credential: &Value) -> Option<Value> {
    let status = &credential["status"];
    let pem = |name: &str| status[name].as_str().map(|text| STANDARD.encode(text));
    let mut user = json!({});
    if let Some(token) = status["token"].as_str() {
        user["token"] = token.into();
    }
    if let (Some(certificate), Some(key)) = (pem("clientCertificateData"), pem("clientKeyData")) {
        user["client-certificate-data"] = certificate.into();
        user["client-key-data"] = key.into();
    }
    user.as_object().is_some_and(|user| !user.is_empty()).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(script: &str) -> Program {
        Program {
            user: "me".into(),
            api_version: "client.authentication.k8s.io/v1".into(),
            command: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("TOKEN".into(), "secret".into())],
        }
    }

    #[test]
    fn a_program_is_asked_as_kubectl_asks_it() {
        let script = r#"case $KUBERNETES_EXEC_INFO in *ExecCredential*) echo "{\"status\": {\"token\": \"$TOKEN\"}}" ;; esac"#;
        let found = credentials(&program(script), Path::new("/")).expect("a token");
        assert_eq!(found, json!({ "token": "secret" }));
    }

    #[test]
    fn what_goes_wrong_is_told_without_what_was_said() {
        for script in ["exit 3", "echo secret", "true"] {
            let failure = credentials(&program(script), Path::new("/")).expect_err("there are none");
            assert!(failure.what.starts_with("/bin/sh gives no credentials: "), "{failure}");
            assert!(!failure.what.contains("secret"), "{failure}");
        }
        let missing = Program { command: "no-such-program".into(), ..program("") };
        assert!(credentials(&missing, Path::new("/")).is_err());
    }

    #[test]
    fn certificates_are_taken_with_their_keys_only() {
        let status = json!({ "clientCertificateData": "c", "clientKeyData": "k" });
        let found = user(&json!({ "status": status })).expect("an identity");
        assert_eq!(found, json!({ "client-certificate-data": "Yw==", "client-key-data": "aw==" }));
        assert_eq!(user(&json!({ "status": { "clientCertificateData": "c" } })), None);
    }
}
