//! Data directories that a server must not touch.

use crate::support::process::{Atoll, Setup};
use crate::support::{CONFIG_MAPS, config_map_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_the_same_directory_is_refused() {
    let first = Atoll::start();
    let failed = Setup::new().directory(&first.directory).try_start().err().expect("a refusal");
    assert_eq!(failed.status.code(), Some(1));
    let process = first.process();
    let expected = format!("is in use by another process (pid {process}); stop that one first");
    assert!(failed.errors.starts_with("error: ") && failed.errors.contains(&expected), "{}", failed.errors);
    // The first one has not noticed.
    first.admin().post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_a_newer_version_is_refused_and_left_as_it_was() {
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
    let failed = Setup::new().directory(&atoll.directory).try_start().err().expect("a refusal");
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
fn a_port_that_is_taken_is_named() {
    let first = Atoll::start();
    let failed = Setup::new().listen(first.address).try_start().err().expect("a refusal");
    let expected = format!("cannot listen on {}", first.address);
    assert!(failed.errors.contains(&expected) && failed.errors.contains("--listen"), "{}", failed.errors);
}
