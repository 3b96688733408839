//! Every way in which a cluster is not reachable has its own reason and a hint, while joining and afterwards.

use std::path::Path;

use atoll_testkit::{Atoll, Client, Setup, atoll, fail, succeed};
use serde_json::Value;
use tokio::net::TcpSocket;

use crate::faulty_proxy::{FaultyProxy, ProxyMode};
use crate::health::{
    EAST, GRACE, SECRET, condition, replace_in_kubeconfig, wait_for_failure, wait_until_ready,
};
use crate::{start_cluster, wait_for};

/// Writes a copy of a kubeconfig with another address.
fn write_with_address(kubeconfig: &Path, address: &str, to: &Path) {
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    let config: Value = serde_saphyr::from_str(&text).unwrap();
    let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
    let (_, authority) = server.split_once("https://").unwrap();
    let authority = authority.split('/').next().unwrap();
    std::fs::write(to, text.replace(authority, address)).unwrap();
}

/// Returns the secrets that must not appear in messages.
fn secrets(kubeconfig: &Path) -> Vec<String> {
    let config: Value = serde_saphyr::from_str(&std::fs::read_to_string(kubeconfig).unwrap()).unwrap();
    let user = &config["users"][0]["user"];
    let fields = ["token", "client-key-data"];
    fields.iter().filter_map(|field| user[*field].as_str()).map(str::to_string).collect()
}

fn join_command(above: &Atoll, kubeconfig: &Path) -> std::process::Command {
    // Not all of these control planes run syncers.
    let mut command = atoll(&["cluster", "join", "east", "--wait", "0", "--kubeconfig"]);
    command.arg(kubeconfig).env("KUBECONFIG", above.kubeconfig()).stdin(std::process::Stdio::null());
    command
}

/// Returns a bound address without a listener. No other process can listen on it while the socket exists.
fn reserve_address() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_join_reports_the_reason_and_a_hint() {
    let above = Atoll::start_bare();
    let east = start_cluster("east");
    let proxy = FaultyProxy::start_for(&east.address.to_string(), &east.directory).await;
    let (_reserved, closed) = reserve_address();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let hidden = secrets(&east.kubeconfig());
    assert!(!hidden.is_empty());
    let proxy_address = proxy.address.to_string();
    for (address, mode, what, next) in [
        (
            "cluster.invalid:6443",
            ProxyMode::Cluster,
            "cannot reach https://cluster.invalid:6443",
            "getent hosts",
        ),
        (&closed, ProxyMode::Cluster, "cannot reach https://127.0.0.1", "is the cluster running"),
        (
            &proxy_address,
            ProxyMode::NoHandshake,
            "the server does not respond within",
            "is a firewall in the way",
        ),
        (&proxy_address, ProxyMode::Expired, " has expired", "kubeadm certs renew apiserver"),
        (&proxy_address, ProxyMode::NotYetValid, " is not valid yet", "date"),
        (
            &proxy_address,
            ProxyMode::UnknownAuthority,
            "is not signed by the authority",
            "get a new kubeconfig",
        ),
        (
            &proxy_address,
            ProxyMode::WrongName,
            "for another name",
            "an address in the kubeconfig that the certificate contains",
        ),
        (&proxy_address, ProxyMode::Status(401), "rejects the credential", "get a new one"),
        (&proxy_address, ProxyMode::Status(403), "the proxy answers 403", "needs an administrator"),
        (&proxy_address, ProxyMode::Status(429), "the proxy answers 429", "try again in a moment"),
        (&proxy_address, ProxyMode::Status(503), "the proxy answers 503", "try again in a moment"),
    ] {
        proxy.set_mode(mode);
        write_with_address(&east.kubeconfig(), address, &file);
        let errors = fail(&mut join_command(&above, &file));
        let (printed, hint) = errors.split_once("hint: ").unwrap_or_else(|| panic!("no hint: {errors}"));
        assert!(printed.contains(what) && hint.contains(next), "{address} {mode:?}: {errors}");
        assert!(
            hidden.iter().all(|secret| !errors.contains(secret.as_str())),
            "{address} {mode:?}: {errors}"
        );
        assert_eq!(above.admin().get(EAST).await.status, 404, "{address} {mode:?}");
    }
    // An address that contains a password is rejected, and the password is not printed.
    write_with_address(&east.kubeconfig(), &format!("me:s3cr3t@{proxy_address}"), &file);
    let errors = fail(&mut join_command(&above, &file));
    assert!(errors.contains("has a user in it") && !errors.contains("s3cr3t"), "{errors}");
    // The same command succeeds when the cluster is reachable.
    proxy.set_mode(ProxyMode::Cluster);
    write_with_address(&east.kubeconfig(), &proxy_address, &file);
    succeed(&mut join_command(&above, &file));
}

/// Waits for a reason and checks the conditions: they have a hint and contain no secrets.
async fn assert_reason(above: &Client, hidden: &[String], reason: &str, reachable: &str, next: &str) {
    let (message, printed) = wait_for_failure(above, reason).await;
    assert_eq!(printed, reachable, "{reason}");
    let (_, advice) =
        message.split_once("Next: ").unwrap_or_else(|| panic!("{reason}: no advice: {message}"));
    assert!(advice.contains(next), "{reason}: {message}");
    let cluster = above.get(EAST).await;
    if reachable == "False" {
        let (_, why, message_now) = condition(&cluster.expect(200), "Reachable");
        // The reason may have changed since.
        assert!(!why.is_empty() && message_now.contains("Next: "), "{reason}: {why} {message_now}");
    }
    assert!(
        hidden.iter().all(|secret| !cluster.text().contains(secret.as_str())),
        "{reason}: {}",
        cluster.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_cluster_reports_the_reason_and_recovers() {
    let control_plane = Setup::new().flag("--cluster-grace-period", GRACE).start();
    let east = start_cluster("east");
    let proxy = FaultyProxy::start_for(&east.address.to_string(), &east.directory).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    write_with_address(&east.kubeconfig(), &proxy.address.to_string(), &file);
    succeed(&mut join_command(&control_plane, &file));
    let above = control_plane.admin();
    wait_until_ready(&above).await;
    let mut hidden = secrets(&east.kubeconfig());
    let secret = above.get(SECRET).await.expect(200);
    let stored = directory.path().join("stored");
    let kubeconfig = {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.decode(secret["data"]["kubeconfig"].as_str().unwrap())
    };
    std::fs::write(&stored, kubeconfig.unwrap()).unwrap();
    hidden.extend(secrets(&stored));

    let again = "atoll cluster join east --kubeconfig FILE";
    for (mode, reason, reachable, next) in [
        (ProxyMode::NoHandshake, "TimedOut", "False", "a firewall"),
        (ProxyMode::Expired, "CertificateExpired", "False", "kubeadm certs renew apiserver"),
        (ProxyMode::UnknownAuthority, "CertificateUntrusted", "False", again),
        (ProxyMode::NotYetValid, "CertificateNotYetValid", "False", "date"),
        (ProxyMode::WrongName, "CertificateForAnotherName", "False", again),
        (ProxyMode::NoResponse, "TimedOut", "False", "a firewall"),
    ] {
        proxy.set_mode(mode);
        assert_reason(&above, &hidden, reason, reachable, next).await;
    }
    // When the cluster is reachable again, it becomes ready without intervention.
    proxy.set_mode(ProxyMode::Cluster);
    wait_until_ready(&above).await;
    for (mode, reason, reachable, next) in [
        (ProxyMode::Status(401), "CredentialsRefused", "False", again),
        (ProxyMode::Status(403), "PermissionsMissing", "True", again),
        (ProxyMode::Status(429), "Overloaded", "False", "/readyz?verbose"),
        (ProxyMode::Status(500), "ServerFails", "False", "/readyz?verbose"),
        (ProxyMode::Status(503), "Overloaded", "False", "/readyz?verbose"),
    ] {
        proxy.set_mode(mode);
        assert_reason(&above, &hidden, reason, reachable, next).await;
    }
    proxy.set_mode(ProxyMode::Cluster);
    wait_until_ready(&above).await;

    // Unresolvable names and closed ports, and back.
    let (_reserved, closed) = reserve_address();
    let proxy_address = proxy.address.to_string();
    let server = "/clusters/0/cluster/server";
    for (address, reason, next) in [
        ("cluster.invalid:6443", "NameNotResolved", "getent hosts"),
        (&closed, "ConnectionRefused", "get --raw /readyz"),
    ] {
        replace_in_kubeconfig(&above, server, |_| format!("https://{address}")).await;
        assert_reason(&above, &hidden, reason, "False", next).await;
    }
    replace_in_kubeconfig(&above, server, |_| format!("https://{proxy_address}")).await;
    wait_until_ready(&above).await;
    wait_for("events report it", &above, "/api/v1/namespaces/default/events", |events| {
        let items = events["items"].as_array().unwrap();
        items.iter().any(|event| event["reason"] == "ClusterNotReady")
            && items.iter().any(|event| event["reason"] == "ClusterReady")
    })
    .await;
    let log = control_plane.log();
    assert!(hidden.iter().all(|secret| !log.contains(secret.as_str())), "{log}");
}
