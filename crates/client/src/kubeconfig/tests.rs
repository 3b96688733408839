//! Contexts, changes and tokens of one kubeconfig.

use super::*;

const TEXT: &str = "
apiVersion: v1
kind: Config
current-context: a
clusters:
- name: east
  cluster: { server: https://east:6443, certificate-authority-data: Y2E= }
users:
- name: me
  user: { token: secret }
- name: other
  user: { exec: { apiVersion: client.authentication.k8s.io/v1, command: login, args: [a], env: [{ name: X, value: z }] } }
- name: file
  user: { tokenFile: nowhere }
contexts:
- { name: a, context: { cluster: east, user: me } }
- { name: program, context: { cluster: east, user: other } }
- { name: file, context: { cluster: east, user: file } }
- { name: nobody, context: { cluster: east, user: nobody } }
- { name: nowhere, context: { cluster: west, user: me } }
- { name: anonymous, context: { cluster: east, namespace: web } }
";

#[test]
fn contexts_are_read() {
    let config = Kubeconfig::parse(TEXT).expect("a kubeconfig");
    assert_eq!(config.current(), "a");
    assert_eq!(config.contexts(), ["a", "program", "file", "nobody", "nowhere", "anonymous"]);
    let context = config.context("a", None).expect("a context");
    assert_eq!(context.server, "https://east:6443");
    assert_eq!(context.authority_pem.as_deref(), Some(&b"ca"[..]));
    assert_eq!(context.token.as_deref(), Some("secret"));
    assert!(!format!("{context:?}").contains("secret"));
    assert_eq!((context.token.is_some(), context.namespace), (true, None));
    let anonymous = config.context("anonymous", None).expect("a context");
    assert_eq!((anonymous.token, anonymous.namespace.as_deref()), (None, Some("web")));
}

#[test]
fn programs_are_named() {
    let config = Kubeconfig::parse(TEXT).expect("a kubeconfig");
    let program = config.credential_plugin("program").expect("a program");
    assert_eq!((program.user.as_str(), program.command.as_str()), ("other", "login"));
    assert_eq!(program.api_version, "client.authentication.k8s.io/v1");
    assert_eq!(program.arguments, ["a"]);
    assert_eq!(program.environment, [("X".to_string(), "z".to_string())]);
    assert_eq!(
        (config.credential_plugin("a"), config.credential_plugin("anonymous"), config.credential_plugin("b")),
        (None, None, None)
    );
}

#[test]
fn problems_have_distinct_variants() {
    let config = Kubeconfig::parse(TEXT).expect("a kubeconfig");
    for (context, expected) in [
        ("", Problem::NoContext),
        ("b", Problem::NoContext),
        ("program", Problem::ExecPlugin),
        ("file", Problem::File("tokenFile")),
        ("nobody", Problem::NoUser("nobody".into())),
        ("nowhere", Problem::NoCluster("west".into())),
    ] {
        assert_eq!(config.context(context, None), Err(expected), "{context}");
    }
    for text in ["", "[]", "text", "a: [", "null"] {
        assert!(matches!(Kubeconfig::parse(text), Err(Problem::Form(_))), "{text}");
    }
    let twice = TEXT.replace("name: other", "name: me");
    assert_eq!(Kubeconfig::parse(&twice), Err(Problem::Form("it has two users with the name \"me\"".into())));
    let wrong = TEXT.replace("Y2E=", "no-base64");
    let wrong = Kubeconfig::parse(&wrong).expect("a kubeconfig").context("a", None);
    assert!(
        matches!(wrong, Err(Problem::Content(problem)) if problem.starts_with("certificate-authority-data: "))
    );
}

#[test]
fn only_the_server_and_the_user_change() {
    let mut config = Kubeconfig::parse(TEXT).expect("a kubeconfig");
    config.set_server("east", "https://west").expect("a server");
    config.set_user("other", serde_json::json!({ "token": "new" })).expect("a user");
    let again = Kubeconfig::parse(&config.text()).expect("a kubeconfig");
    assert_eq!(again.context("a", None).expect("a context").server, "https://west");
    assert_eq!(again.context("program", None).expect("a context").token.as_deref(), Some("new"));
    assert_eq!((config.cluster_name("a"), config.cluster_name("b")), (Ok("east"), Err(Problem::NoContext)));
    assert_eq!(config.set_server("b", ""), Err(Problem::NoCluster("b".into())));
    assert_eq!(config.set_user("b", Value::Null), Err(Problem::NoUser("b".into())));
}

#[test]
fn tokens_are_replaced_only_as_values() {
    let with = |token: &str| TEXT.replace("token: secret", &format!("token: {token}"));
    let mut config = Kubeconfig::parse(&with("old.old.old")).expect("a kubeconfig");
    config.replace_token("old.old.old", "new.new.new").expect("a token");
    let again = Kubeconfig::parse(&config.text()).expect("a kubeconfig");
    assert_eq!(again, Kubeconfig::parse(&with("new.new.new")).expect("a kubeconfig"));
    assert!(config.replace_token("old.old.old", "new.new.new").is_err(), "the old token was replaced");
    // Even an existing token with YAML syntax stays a value.
    let odd = r#""a: 'b'\n- exec""#;
    let mut config = Kubeconfig::parse(&with(odd)).expect("a kubeconfig");
    config.replace_token("a: 'b'\n- exec", "new.new.new").expect("a token");
    assert_eq!(config, Kubeconfig::parse(&with("new.new.new")).expect("a kubeconfig"));
    let before = config.clone();
    for text in [
        "",
        "a",
        "a.b",
        "a..c",
        "a.b.c.d",
        "a.b.c\n",
        "a.b.c\n  exec:\n    command: touch",
        "a.b.c\" }",
        "a.b.c d",
        "a.b.\u{1b}[2J",
        "a.b.é",
        &format!("a.b.{}", "c".repeat(LONGEST_TOKEN)),
    ] {
        assert!(!is_token(text) && config.replace_token("new.new.new", text).is_err(), "{text:?}");
        assert_eq!(config, before);
    }
    assert!(is_token("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln-_"));
}
