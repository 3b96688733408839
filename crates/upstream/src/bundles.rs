//! Reads definitions from Go modules, at the versions in `upstream/bundles`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Deserializer, Value};

/// The definitions of one project.
pub struct Bundle {
    pub name: &'static str,
    module: &'static str,
    /// Directories of the definitions that users install.
    installed: &'static [&'static str],
    /// Directories of variants of the same definitions, which are only validated with a dry run.
    judged: &'static [&'static str],
}

pub const BUNDLES: [Bundle; 5] = [
    Bundle {
        name: "cert-manager",
        module: "github.com/cert-manager/cert-manager",
        installed: &["deploy/crds"],
        judged: &[],
    },
    Bundle {
        name: "gateway-api",
        module: "sigs.k8s.io/gateway-api",
        installed: &["config/crd/standard"],
        judged: &["config/crd/experimental"],
    },
    Bundle {
        name: "argo-workflows",
        module: "github.com/argoproj/argo-workflows/v3",
        installed: &["manifests/base/crds/full"],
        judged: &["manifests/base/crds/minimal"],
    },
    Bundle {
        name: "prometheus-operator",
        module: "github.com/prometheus-operator/prometheus-operator",
        installed: &["example/prometheus-operator-crd"],
        judged: &["example/prometheus-operator-crd-full"],
    },
    Bundle {
        name: "cluster-api",
        module: "sigs.k8s.io/cluster-api",
        installed: &[
            "config/crd/bases",
            "bootstrap/kubeadm/config/crd/bases",
            "controlplane/kubeadm/config/crd/bases",
        ],
        judged: &[],
    },
];

/// A CustomResourceDefinition.
pub struct Definition {
    pub name: String,
    pub body: String,
}

impl Bundle {
    pub fn installed(&self, modules: &BTreeMap<String, PathBuf>) -> Vec<Definition> {
        self.read(modules, self.installed)
    }

    pub fn judged(&self, modules: &BTreeMap<String, PathBuf>) -> Vec<Definition> {
        self.read(modules, self.judged)
    }

    fn read(&self, modules: &BTreeMap<String, PathBuf>, directories: &[&str]) -> Vec<Definition> {
        let module = &modules[self.module];
        let mut definitions = Vec::new();
        for directory in directories {
            let found = in_directory(&module.join(directory));
            assert!(!found.is_empty(), "{} has no definitions in {directory}", self.name);
            definitions.extend(found);
        }
        definitions
    }
}

fn in_directory(directory: &Path) -> Vec<Definition> {
    let entries =
        std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the directory can be read").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    let mut definitions = Vec::new();
    for path in paths {
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for document in format!("\n{text}")
            .split("\n---")
            .filter(|text| text.contains("\nkind: CustomResourceDefinition"))
        {
            let value: Value = serde_saphyr::from_str(document)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let name = value["metadata"]["name"].as_str().expect("a definition has a name").to_owned();
            definitions.push(Definition { name, body: value.to_string() });
        }
    }
    definitions
}

/// Returns the directory of each module. Prints a message and returns `None` if Go is not installed.
pub fn modules() -> Option<BTreeMap<String, PathBuf>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../upstream/bundles");
    let mut command = Command::new("go");
    command.args(["mod", "download", "-json"]).args(BUNDLES.iter().map(|bundle| bundle.module));
    let output = match command.current_dir(&directory).env("GOWORK", "off").output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let required = std::env::var_os("ATOLL_REQUIRE_UPSTREAM").is_some();
            assert!(!required, "ATOLL_REQUIRE_UPSTREAM is set, but Go is not installed");
            eprintln!("skipped: downloading the definitions needs Go, which is not installed");
            return None;
        }
        Err(error) => panic!("cannot run go: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let modules = Deserializer::from_slice(&output.stdout).into_iter::<Value>().map(|module| {
        let module = module.unwrap_or_else(|error| panic!("{said}: {error}"));
        let text =
            |name: &str| module[name].as_str().unwrap_or_else(|| panic!("no {name} in {module}")).to_owned();
        (text("Path"), PathBuf::from(text("Dir")))
    });
    Some(modules.collect())
}
