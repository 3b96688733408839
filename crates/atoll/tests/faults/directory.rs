//! Data directories that a server must not change.

use atoll_testkit::{Atoll, Setup};

use crate::support::{CONFIG_MAPS, config_map_with};

#[tokio::test(flavor = "multi_thread")]
async fn second_server_on_the_same_directory_is_rejected() {
    let first = Atoll::start();
    let failed =
        Setup::new().directory(&first.directory).try_start().err().expect("the server must not start");
    assert_eq!(failed.status.code(), Some(1));
    let process = first.process();
    let expected = format!("is in use by another process (pid {process}); stop that one first");
    assert!(failed.errors.starts_with("error: ") && failed.errors.contains(&expected), "{}", failed.errors);
    // The first server keeps working.
    first.admin().post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_a_newer_version_is_rejected_and_unchanged() {
    let mut atoll = Atoll::start();
    atoll.terminate();
    assert!(atoll.wait().success());
    let database = atoll.directory.join("store.db");
    let pragma = |value: i64| {
        let connection = rusqlite::Connection::open(&database).unwrap();
        let before: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        connection.pragma_update(None, "user_version", value).unwrap();
        before
    };
    let known = pragma(1000);
    let failed =
        Setup::new().directory(&atoll.directory).try_start().err().expect("the server must not start");
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        failed.errors.contains("was written by a newer version of Atoll (format 1000;"),
        "{}",
        failed.errors
    );
    assert_eq!(pragma(known), 1000);
    atoll.restart();
    atoll.admin().get("/api/v1/namespaces/default").await.expect(200);
}

#[test]
fn port_in_use_is_named_in_the_error() {
    let first = Atoll::start();
    let failed = Setup::new().listen(first.address).try_start().err().expect("the server must not start");
    let expected = format!("cannot listen on {}", first.address);
    assert!(failed.errors.contains(&expected) && failed.errors.contains("--listen"), "{}", failed.errors);
}
