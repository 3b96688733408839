//! The binary under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the binary under test: `ATOLL_BIN`, for example a release build; or the one that cargo has built
/// for the tests of its own crate; or the workspace's binary, which cargo rebuilds first so that no test uses
/// an old one.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let given = || std::env::var_os("ATOLL_BIN").or_else(|| std::env::var_os("CARGO_BIN_EXE_atoll"));
    BINARY.get_or_init(|| given().map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_else(|error| panic!("cannot find the test binary: {error}"));
    // TARGET/PROFILE/deps/test-hash. An example or a binary has no `deps`.
    let directory = test.parent().expect("a binary has a parent directory");
    let profile =
        if directory.ends_with("deps") { directory.parent().unwrap_or(directory) } else { directory };
    let target = profile.parent().expect("a profile directory has a parent directory");
    let name = profile.file_name().unwrap_or_default();
    let name = if name == "debug" { "dev".into() } else { name.to_os_string() };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(["build", "--quiet", "-p", "atoll"]);
    command.arg("--profile").arg(name).arg("--target-dir").arg(target);
    let status = command.status().unwrap_or_else(|error| panic!("cannot run cargo: {error}"));
    assert!(status.success(), "building atoll failed");
    profile.join("atoll")
}
