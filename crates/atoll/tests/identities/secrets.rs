//! Secrets are readable through the API and nowhere on disk.

use std::path::Path;

use atoll_testkit::{Atoll, RequestContent, Setup, atoll, fail, succeed};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};

use crate::disk::walk;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HIDDEN: &str = "correct-horse-battery-staple";
const SHOWN: &str = "everybody-may-know-this";

fn secret(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "stringData": { "password": HIDDEN } })
}

/// Returns the files below a directory that contain this text, plain or as the API encodes it.
fn files_containing(directory: &Path, text: &str) -> Vec<String> {
    let encoded = STANDARD.encode(text);
    let forms = [text.as_bytes(), encoded.as_bytes()];
    let has =
        |content: &[u8]| forms.iter().any(|form| content.windows(form.len()).any(|window| window == *form));
    let files = walk(directory).into_iter().filter(|path| path.is_file());
    let with = files.filter(|path| std::fs::read(path).is_ok_and(|content| has(&content)));
    with.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

async fn read_value(atoll: &Atoll, path: &str) -> String {
    let secret = atoll.admin().get(path).await.expect(200);
    let value = STANDARD.decode(secret["data"]["password"].as_str().unwrap()).unwrap();
    String::from_utf8(value).unwrap()
}

fn terminate(atoll: &mut Atoll) {
    atoll.terminate();
    assert!(atoll.wait().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_encrypted_on_disk() {
    let mut server = Atoll::start();
    let admin = server.admin();
    for number in 0..20 {
        admin.post(SECRETS, secret(&format!("s{number}"))).await.expect(201);
    }
    admin
        .merge(&format!("{SECRETS}/s1"), json!({ "metadata": { "labels": { "a": "b" } } }))
        .await
        .expect(200);
    admin.delete(&format!("{SECRETS}/s2")).await.expect(200);
    admin.post(MAPS, json!({ "metadata": { "name": "m" }, "data": { "a": SHOWN } })).await.expect(201);
    let copy = server.directory.join("copy.snapshot");
    let (kubeconfig, copy) = (server.kubeconfig(), copy.to_str().unwrap().to_string());
    let restore = ["snapshot", "restore", &copy, "--yes", "--kubeconfig", kubeconfig.to_str().unwrap()];
    succeed(&mut atoll(&["snapshot", "save", &copy, "--kubeconfig", kubeconfig.to_str().unwrap()]));
    assert!(
        !files_containing(&server.directory, SHOWN).is_empty(),
        "the search must find text that is stored in plain"
    );
    assert_eq!(files_containing(&server.directory, HIDDEN), [""; 0], "while the server runs");
    admin.delete(&format!("{SECRETS}/s3")).await.expect(200);
    succeed(&mut atoll(&restore));
    assert_eq!(read_value(&server, &format!("{SECRETS}/s3")).await, HIDDEN);
    server.kill();
    assert_eq!(files_containing(&server.directory, HIDDEN), [""; 0], "after a crash");
    server.restart();
    assert_eq!(read_value(&server, &format!("{SECRETS}/s1")).await, HIDDEN);
    terminate(&mut server);
    assert_eq!(files_containing(&server.directory, HIDDEN), [""; 0], "after a shutdown");
    // Another server has another key.
    let other = Atoll::start();
    let kubeconfig = other.kubeconfig();
    let complaint = fail(&mut atoll(&[
        "snapshot",
        "restore",
        &copy,
        "--yes",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ]));
    assert!(complaint.contains("which is not configured"), "{complaint}");
}

fn configuration(directory: &Path, resources: &str, providers: &str) -> std::path::PathBuf {
    let path = directory.join("encryption-test.yaml");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [{resources}]\n  \
         providers:\n{providers}"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn key(provider: &str, name: &str, fill: u8) -> String {
    format!("  - {provider}: {{keys: [{{name: {name}, secret: {}}}]}}\n", STANDARD.encode([fill; 32]))
}

const IDENTITY: &str = "  - identity: {}\n";

#[tokio::test(flavor = "multi_thread")]
async fn plain_data_is_encrypted_at_the_next_start() {
    let temporary = tempfile::tempdir().unwrap();
    let off = configuration(temporary.path(), "secrets", IDENTITY);
    let directory = temporary.path().join("data");
    let path = format!("{SECRETS}/s1");
    let mut before =
        Setup::new().directory(&directory).flag("--encryption-provider-config", off.display()).start();
    let mut http = before.admin().http2().await.unwrap();
    for number in 0..700 {
        let body = RequestContent::Json(secret(&format!("s{number}")));
        http.request(Method::POST, SECRETS, body).await.unwrap().expect(201);
    }
    drop(http);
    before.admin().delete(&format!("{SECRETS}/s0")).await.expect(200);
    assert!(!files_containing(&directory, HIDDEN).is_empty());
    terminate(&mut before);
    assert!(!files_containing(&directory, HIDDEN).is_empty(), "it must be plain before");
    let mut after = Setup::new().directory(&directory).start();
    after.logged(|line| line.contains("500 of 699"));
    assert_eq!(read_value(&after, &path).await, HIDDEN);
    assert_eq!(files_containing(&directory, HIDDEN), [""; 0]);
    terminate(&mut after);
    assert_eq!(files_containing(&directory, HIDDEN), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_keys_can_be_rotated_and_missing_keys_are_reported() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("data");
    let start = |resources: &str, providers: &str| {
        let file = configuration(temporary.path(), resources, providers);
        Setup::new().directory(&directory).flag("--encryption-provider-config", file.display()).try_start()
    };
    let (one, two) = (key("aesgcm", "one", 1), key("aesgcm", "two", 2));
    // From the generated key to a configured one, then to another, then for all resources.
    let mut server = Setup::new().directory(&directory).start();
    server.admin().post(SECRETS, secret("s")).await.expect(201);
    server
        .admin()
        .post(MAPS, json!({ "metadata": { "name": "m" }, "data": { "a": SHOWN } }))
        .await
        .expect(201);
    terminate(&mut server);
    let steps = [
        ("secrets", one.clone(), "k8s:enc:aesgcm:v1:one:"),
        ("secrets", format!("{two}{one}"), "k8s:enc:aesgcm:v1:two:"),
        ("'*.*'", format!("{two}{IDENTITY}"), "k8s:enc:aesgcm:v1:two:"),
    ];
    for (resources, providers, mark) in steps {
        let mut server = start(resources, &providers).unwrap_or_else(|failed| panic!("{}", failed.errors));
        assert_eq!(read_value(&server, &format!("{SECRETS}/s")).await, HIDDEN);
        terminate(&mut server);
        assert!(!files_containing(&directory, mark).is_empty(), "{mark}");
    }
    assert_eq!(
        files_containing(&directory, "k8s:enc:aesgcm:v1:one:"),
        [""; 0],
        "no value may be encrypted with the old key"
    );
    assert_eq!(files_containing(&directory, SHOWN), [""; 0], "all resources must be encrypted");
    // Without the key the server does not start, and the error names the key.
    for (providers, expected) in [
        (format!("{one}{IDENTITY}"), "aesgcm key \"two\", which is not configured"),
        (format!("{}{IDENTITY}", key("aesgcm", "two", 3)), "cannot be decrypted with the key \"two\""),
        (format!("{}{two}", key("secretbox", "three", 3)), "secretbox cannot be the first provider"),
        ("  - kms: {name: a, endpoint: 'unix:///x'}\n".into(), "kms providers are not supported"),
    ] {
        let Err(failed) = start("'*.*'", &providers) else {
            panic!("the server must not start without {expected}")
        };
        assert!(failed.errors.contains(expected), "{}", failed.errors);
    }
    let Err(failed) = Setup::new().directory(&directory).try_start() else {
        panic!("the server must not start with another key")
    };
    assert!(failed.errors.contains("aesgcm key \"two\""), "{}", failed.errors);
    let mut server = start("'*.*'", &two).unwrap_or_else(|failed| panic!("{}", failed.errors));
    assert_eq!(read_value(&server, &format!("{SECRETS}/s")).await, HIDDEN);
    terminate(&mut server);
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_key_can_be_rotated_and_a_missing_key_is_reported() {
    let mut server = Atoll::start();
    server.admin().post(SECRETS, secret("s")).await.expect(201);
    let file = server.directory.join("encryption.yaml");
    let first = std::fs::read_to_string(&file).unwrap();
    succeed(&mut atoll(&["keys", "rotate", "encryption", "--data-dir", server.directory.to_str().unwrap()]));
    terminate(&mut server);
    server.restart();
    assert_eq!(read_value(&server, &format!("{SECRETS}/s")).await, HIDDEN);
    terminate(&mut server);
    let both = std::fs::read_to_string(&file).unwrap();
    let (directory, listen) = (server.directory.clone(), server.address);
    let start = || Setup::new().directory(&directory).listen(listen).try_start();
    // The old key alone is not enough, and without any key no new one is generated.
    std::fs::write(&file, &first).unwrap();
    let Err(failed) = start() else { panic!("the server must not start with the old key") };
    assert!(failed.errors.contains("is not configured"), "{}", failed.errors);
    std::fs::remove_file(&file).unwrap();
    let Err(failed) = start() else { panic!("the server must not start without a key") };
    assert!(failed.errors.contains("is not configured"), "{}", failed.errors);
    assert!(!file.exists());
    std::fs::write(&file, &both).unwrap();
    server.restart();
    assert_eq!(read_value(&server, &format!("{SECRETS}/s")).await, HIDDEN);
}
