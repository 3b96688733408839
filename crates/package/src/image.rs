//! An image for container runtimes: one file that `ctr images import`, `podman load` and `docker load` take.
//!
//! ```text
//!   oci-layout, index.json ──► manifest ──► configuration, layer (gzip of tar)      what OCI prescribes
//!   manifest.json ───────────────────────► the same two                            what Docker looks for
//! ```

use std::collections::BTreeMap;
use std::io::Write;

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};

use crate::Error;
use crate::digest::sha256;
use crate::libraries::Library;
use crate::tar::{Content, Entry, archive};

/// Who the program is in a container, unless the container says otherwise: nobody in particular.
const USER: u32 = 65_532;

/// Where it starts, and where it may write. Users with any other number are in group 0, and may too.
const HOME: &str = "var/lib/atoll";

const PASSWD: &str =
    "root:x:0:0:root:/:/sbin/nologin\natoll:x:65532:65532:atoll:/var/lib/atoll:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\natoll:x:65532:\n";
/// Names of hosts come from the container's own file, then from its name servers.
const NAMES: &str = "hosts: files dns\n";

/// No time at all: the same content is the same image whenever it is made.
const CREATED: &str = "1970-01-01T00:00:00Z";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

pub struct Image<'a> {
    /// What runtimes call it, as `localhost/atoll:1`.
    pub reference: &'a str,
    pub version: &'a str,
    pub architecture: &'a str,
    /// What runs, as `/atoll`.
    pub program: &'a [u8],
    pub libraries: &'a [Library],
}

impl Image<'_> {
    /// The whole archive.
    pub fn archive(&self) -> Result<Vec<u8>, Error> {
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
            Entry::file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#),
            Entry::file("index.json", index.as_bytes()),
            Entry::file("manifest.json", docker.as_bytes()),
            Entry::directory("blobs"),
            Entry::directory("blobs/sha256"),
            Entry::file(&paths[0], &manifest),
            Entry::file(&paths[1], &configuration),
            Entry::file(&paths[2], &layer),
        ])
    }

    /// All files, sorted, each directory before what is in it.
    fn layer(&self) -> Result<Vec<u8>, Error> {
        let mut content = vec![
            Entry { mode: 0o755, ..Entry::file("atoll", self.program) },
            Entry::file("etc/passwd", PASSWD.as_bytes()),
            Entry::file("etc/group", GROUP.as_bytes()),
            Entry::file("etc/nsswitch.conf", NAMES.as_bytes()),
            Entry { mode: 0o1777, ..Entry::directory("tmp") },
            Entry { path: HOME, mode: 0o770, user: USER, group: 0, content: Content::Directory },
        ];
        content.extend(self.libraries.iter().map(|library| {
            let path = library.path.trim_start_matches('/');
            Entry { mode: 0o755, ..Entry::file(path, &library.content) }
        }));
        let mut entries: BTreeMap<&str, Entry> = BTreeMap::new();
        for entry in content {
            // What is a symbolic link to a directory elsewhere, as /lib often is, is a directory here.
            for (cut, _) in entry.path.match_indices('/') {
                let directory = &entry.path[..cut];
                entries.entry(directory).or_insert_with(|| Entry::directory(directory));
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
        // containerd takes the whole name from the first, others the tag from the second.
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

/// Where something with this content is in the archive.
fn blob(content: &[u8]) -> String {
    format!("blobs/sha256/{}", sha256(content))
}

fn compressed(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let failed = |error| Error::File { path: "layer".into(), error };
    // Neither a time nor the system that it was made on is in the header.
    let mut writer = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::new(6));
    writer.write_all(bytes).map_err(failed)?;
    writer.finish().map_err(failed)
}
