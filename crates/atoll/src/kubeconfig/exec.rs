//! Runs exec credential plugins, such as those of cloud providers, as kubectl does.

// upstream: staging/src/k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go

use std::process::{Command, Stdio};

use atoll_client::kubeconfig::CredentialPlugin;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::advice::Failure;

/// Runs the plugin and returns its credentials as the user entry of a kubeconfig.
pub fn credentials(program: &CredentialPlugin) -> Result<Value, Failure> {
    let failed = |what: String| {
        Failure::new(
            format!("{} returned no credentials: {what}", program.command),
            "run it directly to see its output; kubectl uses it in the same way",
        )
    };
    let request = json!({ "apiVersion": program.api_version, "kind": "ExecCredential", "spec": { "interactive": false } });
    let output = Command::new(&program.command)
        .args(&program.arguments)
        .envs(program.environment.iter().map(|(name, value)| (name, value)))
        .env("KUBERNETES_EXEC_INFO", request.to_string())
        .stdin(Stdio::null())
        // Its error messages are for the user.
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("it exited with {}", output.status)));
    }
    let credential = atoll_meta::json::parse(&output.stdout).map(|parsed| parsed.value).unwrap_or_default();
    user(&credential).ok_or_else(|| failed("it printed no ExecCredential with a token or certificate".into()))
}

/// The user entry for an ExecCredential.
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

    fn program(script: &str) -> CredentialPlugin {
        CredentialPlugin {
            user: "me".into(),
            api_version: "client.authentication.k8s.io/v1".into(),
            command: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("TOKEN".into(), "secret".into())],
        }
    }

    #[test]
    fn plugins_get_exec_info() {
        let script = r#"case $KUBERNETES_EXEC_INFO in *ExecCredential*) echo "{\"status\": {\"token\": \"$TOKEN\"}}" ;; esac"#;
        let found = credentials(&program(script)).expect("a token");
        assert_eq!(found, json!({ "token": "secret" }));
    }

    #[test]
    fn failures_do_not_contain_the_output() {
        for script in ["exit 3", "echo secret", "true"] {
            let failure = credentials(&program(script)).expect_err("there are none");
            assert!(failure.message.starts_with("/bin/sh returned no credentials: "), "{failure}");
            assert!(!failure.message.contains("secret"), "{failure}");
        }
        let missing = CredentialPlugin { command: "no-such-program".into(), ..program("") };
        assert!(credentials(&missing).is_err());
    }

    #[test]
    fn certificates_without_a_key_are_ignored() {
        let status = json!({ "clientCertificateData": "c", "clientKeyData": "k" });
        let found = user(&json!({ "status": status })).expect("an identity");
        assert_eq!(found, json!({ "client-certificate-data": "Yw==", "client-key-data": "aw==" }));
        assert_eq!(user(&json!({ "status": { "clientCertificateData": "c" } })), None);
    }
}
