//! An image for container runtimes: one file that `ctr images import`, `podman load` and `docker load`
//! accept.
//!
//! ```text
//!   oci-layout, index.json ──► manifest ──► configuration, layer (tar.gz)      OCI
//!   manifest.json ───────────────────────► the same two                       Docker
//! ```

use std::collections::BTreeMap;
use std::io::Write;

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};

use crate::PackageError;
use crate::digest::sha256;
use crate::libraries::Library;
use crate::tar::{Content, TarEntry, archive};

/// User id of the program in a container, unless the container sets another: an unprivileged user.
const USER: u32 = 65_532;

/// Working directory. It is writable for group 0, so that containers with arbitrary user ids can write to it
/// too.
const HOME: &str = "var/lib/atoll";

const PASSWD: &str =
    "root:x:0:0:root:/:/sbin/nologin\natoll:x:65532:65532:atoll:/var/lib/atoll:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\natoll:x:65532:\n";
/// Host names are resolved from the container's hosts file first, then by DNS.
const NAMES: &str = "hosts: files dns\n";

/// A fixed time, so that equal content gives an identical image.
const CREATED: &str = "1970-01-01T00:00:00Z";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

pub struct Image<'a> {
    /// Name of the image for container runtimes, such as `localhost/atoll:1`.
    pub reference: &'a str,
    pub version: &'a str,
    pub architecture: &'a str,
    /// The executable that the image runs as `/atoll`.
    pub program: &'a [u8],
    pub libraries: &'a [Library],
}

impl Image<'_> {
    /// Returns the image as a tar archive.
    pub fn archive(&self) -> Result<Vec<u8>, PackageError> {
        let files = self.layer()?;
        let layer = compressed(&files)?;
        let configuration = self.configuration(&files).to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIGURATION, &configuration),
            "layers": [descriptor(LAYER, &layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let index = self.index(&manifest).to_string();
        let docker = json!([{
            "Config": blob(&configuration),
            "RepoTags": [self.reference],
            "Layers": [blob(&layer)],
        }]);
        let docker = docker.to_string();
        let paths = [blob(&manifest), blob(&configuration), blob(&layer)];
        archive(&[
            TarEntry::file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#),
            TarEntry::file("index.json", index.as_bytes()),
            TarEntry::file("manifest.json", docker.as_bytes()),
            TarEntry::directory("blobs"),
            TarEntry::directory("blobs/sha256"),
            TarEntry::file(&paths[0], &manifest),
            TarEntry::file(&paths[1], &configuration),
            TarEntry::file(&paths[2], &layer),
        ])
    }

    /// Returns the uncompressed layer: all files sorted, each directory before its content.
    fn layer(&self) -> Result<Vec<u8>, PackageError> {
        let mut content = vec![
            TarEntry { mode: 0o755, ..TarEntry::file("atoll", self.program) },
            TarEntry::file("etc/passwd", PASSWD.as_bytes()),
            TarEntry::file("etc/group", GROUP.as_bytes()),
            TarEntry::file("etc/nsswitch.conf", NAMES.as_bytes()),
            TarEntry { mode: 0o1777, ..TarEntry::directory("tmp") },
            TarEntry { path: HOME, mode: 0o770, user: USER, group: 0, content: Content::Directory },
        ];
        content.extend(self.libraries.iter().map(|library| {
            let path = library.path.trim_start_matches('/');
            TarEntry { mode: 0o755, ..TarEntry::file(path, &library.content) }
        }));
        let mut entries: BTreeMap<&str, TarEntry> = BTreeMap::new();
        for entry in content {
            // Paths that are symbolic links on this machine, such as /lib, become directories in the image.
            for (cut, _) in entry.path.match_indices('/') {
                let directory = &entry.path[..cut];
                entries.entry(directory).or_insert_with(|| TarEntry::directory(directory));
            }
            entries.insert(entry.path, entry);
        }
        archive(&entries.into_values().collect::<Vec<_>>())
    }

    fn configuration(&self, files: &[u8]) -> Value {
        let history = json!({ "created": CREATED, "created_by": "cargo xtask dist" });
        json!({
            "architecture": self.architecture,
            "os": "linux",
            "created": CREATED,
            "config": {
                "Entrypoint": ["/atoll"],
                "Env": ["PATH=/"],
                "User": format!("{USER}:{USER}"),
                "WorkingDir": format!("/{HOME}"),
                "Labels": self.labels(),
            },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(files))] },
            "history": [history],
        })
    }

    fn labels(&self) -> Value {
        json!({
            "org.opencontainers.image.title": "atoll",
            "org.opencontainers.image.description": "One Kubernetes API over every cluster you have",
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.licenses": "Apache-2.0",
        })
    }

    fn index(&self, manifest: &[u8]) -> Value {
        let tag = self.reference.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        let mut entry = descriptor(MANIFEST, manifest);
        entry["platform"] = json!({ "architecture": self.architecture, "os": "linux" });
        // containerd reads the full name from the first annotation; other runtimes read the tag from the
        // second.
        entry["annotations"] = json!({
            "io.containerd.image.name": self.reference,
            "org.opencontainers.image.ref.name": tag,
        });
        json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] })
    }
}

fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": format!("sha256:{}", sha256(content)), "size": content.len() })
}

/// Returns the path of a blob in the archive.
fn blob(content: &[u8]) -> String {
    format!("blobs/sha256/{}", sha256(content))
}

fn compressed(bytes: &[u8]) -> Result<Vec<u8>, PackageError> {
    let failed = |error| PackageError::File { path: "layer".into(), error };
    // The header contains neither a time nor an operating system, so that the output is reproducible.
    let mut writer = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::new(6));
    writer.write_all(bytes).map_err(failed)?;
    writer.finish().map_err(failed)
}
