//! Every way in which a cluster is not reached has a reason of its own and says what to do, when it joins and afterwards.

use std::path::Path;

use serde_json::Value;
use tokio::net::TcpSocket;

use crate::doorway::{Behind, Doorway};
use crate::health::{EAST, GRACE, SECRET, condition, fails, replace, turns_ready};
use crate::support::access::Access;
use crate::support::process::{Atoll, Setup, atoll};
use crate::support::programs::{fail, succeed};
use crate::{Cluster, becomes};

/// A kubeconfig with another address in it.
fn leading(kubeconfig: &Path, address: &str, to: &Path) {
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    let config: Value = serde_saphyr::from_str(&text).unwrap();
    let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
    let (_, authority) = server.split_once("https://").unwrap();
    let authority = authority.split('/').next().unwrap();
    std::fs::write(to, text.replace(authority, address)).unwrap();
}

/// What must not be in anything that people see.
fn secrets(kubeconfig: &Path) -> Vec<String> {
    let config: Value = serde_saphyr::from_str(&std::fs::read_to_string(kubeconfig).unwrap()).unwrap();
    let user = &config["users"][0]["user"];
    let fields = ["token", "client-key-data"];
    fields.iter().filter_map(|field| user[*field].as_str()).map(str::to_string).collect()
}

fn joining(above: &Atoll, kubeconfig: &Path) -> std::process::Command {
    // Not all of these control planes sync anything.
    let mut command = atoll(&["cluster", "join", "east", "--wait", "0", "--kubeconfig"]);
    command.arg(kubeconfig).env("KUBECONFIG", above.admin_kubeconfig()).stdin(std::process::Stdio::null());
    command
}

/// An address where nobody listens, and nobody else can for as long as this is there.
fn taken() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_join_is_told_why_and_what_to_do() {
    let above = Atoll::start_bare();
    let east = Cluster::start("east");
    let doorway = Doorway::before(&east.address, &east.place()).await;
    let (_taken, closed) = taken();
    let papers = tempfile::tempdir().unwrap();
    let file = papers.path().join("kubeconfig");
    let hidden = secrets(&east.kubeconfig());
    assert!(!hidden.is_empty());
    let door = doorway.address.to_string();
    for (address, behind, what, next) in [
        (
            "cluster.invalid:6443",
            Behind::Cluster,
            "cannot reach https://cluster.invalid:6443",
            "getent hosts",
        ),
        (&closed, Behind::Cluster, "cannot reach https://127.0.0.1", "is the cluster running"),
        (&door, Behind::Nothing, "it does not answer", "is a firewall in the way"),
        (&door, Behind::Expired, " has expired", "kubeadm certs renew apiserver"),
        (&door, Behind::NotYet, " is not valid yet", "date"),
        (&door, Behind::Stranger, "of another authority", "get the kubeconfig anew"),
        (&door, Behind::Namesake, "for another name", "an address that is in the certificate"),
        (&door, Behind::Answer(401), "does not know who is asking", "get a new one"),
        (&door, Behind::Answer(403), "the door says 403", "needs an administrator"),
        (&door, Behind::Answer(429), "the door says 429", "try again in a moment"),
        (&door, Behind::Answer(503), "the door says 503", "try again in a moment"),
    ] {
        doorway.put(behind);
        leading(&east.kubeconfig(), address, &file);
        let errors = fail(&mut joining(&above, &file));
        let (said, hint) = errors.split_once("hint: ").unwrap_or_else(|| panic!("no hint: {errors}"));
        assert!(said.contains(what) && hint.contains(next), "{address} {behind:?}: {errors}");
        assert!(
            hidden.iter().all(|secret| !errors.contains(secret.as_str())),
            "{address} {behind:?}: {errors}"
        );
        assert_eq!(above.admin().get(EAST).await.status, 404, "{address} {behind:?}");
    }
    // With a password in its address it is not even tried, and not told.
    leading(&east.kubeconfig(), &format!("me:s3cr3t@{door}"), &file);
    let errors = fail(&mut joining(&above, &file));
    assert!(errors.contains("has a user in it") && !errors.contains("s3cr3t"), "{errors}");
    // The same line joins it once all is well.
    doorway.put(Behind::Cluster);
    leading(&east.kubeconfig(), &door, &file);
    succeed(&mut joining(&above, &file));
}

/// What the conditions say, and that nothing is in them that should not be.
async fn says(above: &Access, hidden: &[String], reason: &str, reachable: &str, next: &str) {
    let (message, said) = fails(above, reason).await;
    assert_eq!(said, reachable, "{reason}");
    let (_, advice) =
        message.split_once("Next: ").unwrap_or_else(|| panic!("{reason}: no advice: {message}"));
    assert!(advice.contains(next), "{reason}: {message}");
    let cluster = above.get(EAST).await;
    if reachable == "False" {
        let (_, why, also) = condition(&cluster.expect(200), "Reachable");
        // It may have changed its words since.
        assert!(!why.is_empty() && also.contains("Next: "), "{reason}: {why} {also}");
    }
    assert!(
        hidden.iter().all(|secret| !cluster.text().contains(secret.as_str())),
        "{reason}: {}",
        cluster.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_not_reached_says_why_and_recovers_by_itself() {
    let control_plane = Setup::new().flag("--cluster-grace-period", GRACE).start();
    let east = Cluster::start("east");
    let doorway = Doorway::before(&east.address, &east.place()).await;
    let papers = tempfile::tempdir().unwrap();
    let file = papers.path().join("kubeconfig");
    leading(&east.kubeconfig(), &doorway.address.to_string(), &file);
    succeed(&mut joining(&control_plane, &file));
    let above = control_plane.admin();
    turns_ready(&above).await;
    let mut hidden = secrets(&east.kubeconfig());
    let secret = above.get(SECRET).await.expect(200);
    let stored = papers.path().join("stored");
    let kubeconfig = {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.decode(secret["data"]["kubeconfig"].as_str().unwrap())
    };
    std::fs::write(&stored, kubeconfig.unwrap()).unwrap();
    hidden.extend(secrets(&stored));

    let again = "atoll cluster join east --kubeconfig FILE";
    for (behind, reason, reachable, next) in [
        (Behind::Nothing, "TimedOut", "False", "a firewall"),
        (Behind::Expired, "CertificateExpired", "False", "kubeadm certs renew apiserver"),
        (Behind::Stranger, "CertificateUntrusted", "False", again),
        (Behind::NotYet, "CertificateNotYetValid", "False", "date"),
        (Behind::Namesake, "CertificateForAnotherName", "False", again),
        (Behind::Silence, "TimedOut", "False", "a firewall"),
    ] {
        doorway.put(behind);
        says(&above, &hidden, reason, reachable, next).await;
    }
    // Once it is well again, that is found out without anybody doing anything.
    doorway.put(Behind::Cluster);
    turns_ready(&above).await;
    for (behind, reason, reachable, next) in [
        (Behind::Answer(401), "CredentialsRefused", "False", again),
        (Behind::Answer(403), "PermissionsMissing", "True", again),
        (Behind::Answer(429), "Overloaded", "False", "/readyz?verbose"),
        (Behind::Answer(500), "ServerFails", "False", "/readyz?verbose"),
        (Behind::Answer(503), "Overloaded", "False", "/readyz?verbose"),
    ] {
        doorway.put(behind);
        says(&above, &hidden, reason, reachable, next).await;
    }
    doorway.put(Behind::Cluster);
    turns_ready(&above).await;

    // Names and ports that lead nowhere, and back.
    let (_taken, closed) = taken();
    let door = doorway.address.to_string();
    let server = "/clusters/0/cluster/server";
    for (address, reason, next) in [
        ("cluster.invalid:6443", "NameNotResolved", "getent hosts"),
        (&closed, "ConnectionRefused", "get --raw /readyz"),
    ] {
        replace(&above, server, |_| format!("https://{address}")).await;
        says(&above, &hidden, reason, "False", next).await;
    }
    replace(&above, server, |_| format!("https://{door}")).await;
    turns_ready(&above).await;
    becomes("it is told", &above, "/api/v1/namespaces/default/events", |events| {
        let items = events["items"].as_array().unwrap();
        items.iter().any(|event| event["reason"] == "ClusterNotReady")
            && items.iter().any(|event| event["reason"] == "ClusterReady")
    })
    .await;
    let log = control_plane.log();
    assert!(hidden.iter().all(|secret| !log.contains(secret.as_str())), "{log}");
}
