//! Files are readable by their owner only.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use atoll_testkit::{Setup, atoll, succeed};

use crate::support::{CONFIG_MAPS, config_map_with};

/// Returns all paths below a directory, including the directory. Temporary files may be gone when this
/// returns.
pub fn walk(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_path_buf()];
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(walk(&path)),
            false => found.push(path),
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_readable_by_their_owner_only() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("a").join("data");
    let server = Setup::new().directory(&directory).mask("000").start();
    server.admin().post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    let (kubeconfig, copy) = (server.kubeconfig(), directory.join("copy.snapshot"));
    let arguments =
        ["snapshot", "save", copy.to_str().unwrap(), "--kubeconfig", kubeconfig.to_str().unwrap()];
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "umask 000; exec \"$@\"", "sh"]).arg(atoll(&[]).get_program()).args(arguments);
    succeed(&mut shell);
    succeed(&mut atoll(&["keys", "rotate", "tokens", "--data-dir", directory.to_str().unwrap()]));
    succeed(&mut atoll(&["keys", "rotate", "encryption", "--data-dir", directory.to_str().unwrap()]));
    let all = walk(&place.path().join("a"));
    for name in [
        "store.db",
        "store.db-wal",
        "ca.key",
        "service-account.key",
        "encryption.yaml",
        "admin.kubeconfig",
        "copy.snapshot",
    ] {
        assert!(all.contains(&directory.join(name)), "{name} is missing: {all:?}");
    }
    for path in all {
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        let mode = metadata.permissions().mode() & 0o777;
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{}: {mode:o}", path.display());
    }
}
