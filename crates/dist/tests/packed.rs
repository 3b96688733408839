//! Packages this test's own executable and checks that the result is consistent and runs without this
//! machine's files.

// Clippy recognizes only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use atoll_dist::digest::sha256;
use atoll_dist::{distribution, elf};
use serde_json::Value;
use tempfile::TempDir;

const VERSION: &str = "1.2.3";

/// A distribution, with its image unpacked by standard tools.
struct Distribution {
    directory: TempDir,
    output: Vec<String>,
}

impl Distribution {
    /// Returns `None`, and prints a reason, on systems other than Linux.
    fn new() -> Option<Distribution> {
        if std::env::consts::OS != "linux" {
            eprintln!("skipped: images are built from Linux programs only");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let mut output = Vec::new();
        let own = std::env::current_exe().unwrap();
        distribution::write(&own, VERSION, &directory.path().join("dist"), |line| {
            output.push(line.to_owned())
        })
        .unwrap();
        Some(Distribution { directory, output })
    }

    fn dist(&self) -> PathBuf {
        self.directory.path().join("dist")
    }

    fn name(&self) -> String {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        format!("atoll-{VERSION}-linux-{}", elf::read(&own).unwrap().architecture)
    }

    /// Unpacks the image and returns its directory.
    fn image(&self) -> PathBuf {
        let path = self.directory.path().join("image");
        unpack(&self.dist().join(format!("{}.oci.tar", self.name())), &path);
        path
    }
}

fn unpack(archive: &Path, directory: &Path) {
    fs::create_dir_all(directory).unwrap();
    let mut command = Command::new("tar");
    command.args(["--no-same-owner", "-xpf"]).arg(archive).arg("-C").arg(directory);
    succeed(&mut command);
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Returns the blob of a descriptor, after checking its digest and size.
fn blob(image: &Path, descriptor: &Value) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let content = fs::read(image.join("blobs/sha256").join(digest)).unwrap();
    assert_eq!(sha256(&content), digest);
    assert_eq!(descriptor["size"], content.len());
    content
}

#[test]
fn checksums_match_and_kubectl_names_are_hard_links() {
    let Some(distribution) = Distribution::new() else { return };
    let (dist, name) = (distribution.dist(), distribution.name());
    let output = succeed(Command::new("sha256sum").args(["-c", "SHA256SUMS"]).current_dir(&dist));
    let expected = ["", ".oci.tar"].map(|end| format!("{name}{end}: OK"));
    let expected: Vec<&str> = expected
        .iter()
        .map(String::as_str)
        .chain(["kubectl-atoll: OK", "kubectl_complete-atoll: OK"])
        .collect();
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    let file = fs::metadata(dist.join(&name)).unwrap();
    assert_eq!(file.mode() & 0o777, 0o755);
    for link in ["kubectl-atoll", "kubectl_complete-atoll"] {
        assert_eq!(fs::metadata(dist.join(link)).unwrap().ino(), file.ino(), "{link}");
    }
    let mut found: Vec<_> =
        fs::read_dir(&dist).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found.len(), 5, "unexpected files: {found:?}");
    for part in [name.as_str(), ".oci.tar", "libc", "SHA256SUMS"] {
        assert!(
            distribution.output.iter().any(|line| line.contains(part)),
            "{part}: {:?}",
            distribution.output
        );
    }
}

#[test]
fn output_is_reproducible_and_replaces_older_files() {
    let Some(first) = Distribution::new() else { return };
    let read = |directory: &Path| -> BTreeMap<_, _> {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
        entries.map(|entry| (entry.file_name(), sha256(&fs::read(entry.path()).unwrap()))).collect()
    };
    let second = first.directory.path().join("second");
    fs::create_dir(&second).unwrap();
    for name in [first.name().as_str(), "kubectl-atoll", "SHA256SUMS"] {
        fs::write(second.join(name), "older").unwrap();
    }
    let own = std::env::current_exe().unwrap();
    distribution::write(&own, VERSION, &second, |_| {}).unwrap();
    assert_eq!(read(&second), read(&first.dist()));
}

#[test]
fn image_metadata_is_consistent() {
    let Some(distribution) = Distribution::new() else { return };
    let image = distribution.image();
    assert_eq!(json(&image.join("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let index = json(&image.join("index.json"));
    assert_eq!((&index["schemaVersion"], index["manifests"].as_array().unwrap().len()), (&2.into(), 1));
    let entry = &index["manifests"][0];
    assert_eq!(entry["annotations"]["io.containerd.image.name"], "localhost/atoll:1");
    assert_eq!(entry["annotations"]["org.opencontainers.image.ref.name"], "1");
    assert_eq!(entry["mediaType"], "application/vnd.oci.image.manifest.v1+json");

    let manifest: Value = serde_json::from_slice(&blob(&image, entry)).unwrap();
    assert_eq!(manifest["mediaType"], entry["mediaType"]);
    let configuration: Value = serde_json::from_slice(&blob(&image, &manifest["config"])).unwrap();
    assert_eq!(entry["platform"]["architecture"], configuration["architecture"]);
    assert_eq!((&configuration["os"], &entry["platform"]["os"]), (&"linux".into(), &"linux".into()));
    let settings = &configuration["config"];
    assert_eq!(settings["Entrypoint"], serde_json::json!(["/atoll"]));
    assert_eq!(settings["User"], "65532:65532");
    assert_eq!(settings["Labels"]["org.opencontainers.image.version"], VERSION);

    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
    let layer = blob(&image, &manifest["layers"][0]);
    let compressed = distribution.directory.path().join("layer.gz");
    fs::write(&compressed, &layer).unwrap();
    let files = Command::new("gzip").arg("-dc").arg(&compressed).output().unwrap().stdout;
    assert_eq!(
        configuration["rootfs"]["diff_ids"],
        serde_json::json!([format!("sha256:{}", sha256(&files))])
    );

    // Docker's manifest names the same blobs.
    let docker = &json(&image.join("manifest.json"))[0];
    assert_eq!(docker["RepoTags"], serde_json::json!(["localhost/atoll:1"]));
    for (path, descriptor) in
        [(&docker["Config"], &manifest["config"]), (&docker["Layers"][0], &manifest["layers"][0])]
    {
        let content = fs::read(image.join(path.as_str().unwrap())).unwrap();
        assert_eq!(format!("sha256:{}", sha256(&content)), descriptor["digest"].as_str().unwrap());
    }
}

#[test]
fn program_runs_with_the_files_of_the_image_only() {
    let Some(distribution) = Distribution::new() else { return };
    let image = distribution.image();
    let manifest = blob(&image, &json(&image.join("index.json"))["manifests"][0]);
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let digest =
        manifest["layers"][0]["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
    let root = distribution.directory.path().join("root");
    unpack(&image.join("blobs/sha256").join(digest), &root);

    let mode = |path: &str| fs::symlink_metadata(root.join(path)).unwrap().mode() & 0o7777;
    for (path, expected) in
        [("atoll", 0o755), ("tmp", 0o1777), ("var/lib/atoll", 0o770), ("etc", 0o755), ("etc/passwd", 0o644)]
    {
        assert_eq!(mode(path), expected, "{path}");
    }
    let users = fs::read_to_string(root.join("etc/passwd")).unwrap();
    assert!(users.contains(":65532:65532:"), "{users}");

    let own = fs::read(root.join("atoll")).unwrap();
    let Some(loader) = elf::read(&own).unwrap().loader else { return };
    // Only root may chroot. Other users run the program with the loader and the libraries of the image.
    let inside =
        Command::new("chroot").arg(&root).args(["/atoll", "--list"]).env_remove("LD_LIBRARY_PATH").output();
    let output = match inside {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).unwrap(),
        Ok(output) if is_root() => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        _ => {
            let directories = libraries(&root);
            let mut command = Command::new(root.join(loader.trim_start_matches('/')));
            command.arg("--inhibit-cache").arg("--library-path").arg(directories);
            succeed(command.arg(root.join("atoll")).arg("--list"))
        }
    };
    assert!(output.contains("program_runs_with_the_files_of_the_image_only: test"), "{output}");
}

/// Whether chroot is expected to work.
fn is_root() -> bool {
    let number = succeed(Command::new("id").arg("-u"));
    number.trim() == "0"
}

/// Returns the library directories of the image, joined with colons.
fn libraries(root: &Path) -> String {
    let mut directories =
        vec![root.join("lib"), root.join("usr/lib"), root.join("lib64"), root.join("usr/lib64")];
    let below: Vec<PathBuf> = directories
        .iter()
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    directories.extend(below);
    directories.iter().map(|path| path.to_str().unwrap()).collect::<Vec<_>>().join(":")
}
