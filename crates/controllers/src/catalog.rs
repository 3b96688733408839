//! All controllers by name, and which of them run.

use std::future::Future;
use std::pin::Pin;

use crate::context::Context;
use crate::{
    deployment, disruption, endpoint_slice, endpoints, node_lifecycle, replica_set, stateful_set,
    taint_eviction,
};

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A controller that runs over any API.
pub struct Controller {
    /// As kube-controller-manager calls it.
    pub name: &'static str,
    /// As it was called before.
    pub alias: &'static str,
    pub run: fn(Context) -> Running,
}

macro_rules! controllers {
    ($($name:literal $alias:literal $run:path;)*) => {
        /// Those that can be chosen.
        pub const CONTROLLERS: &[Controller] = &[
            $(Controller { name: $name, alias: $alias, run: |context| Box::pin($run(context)) },)*
        ];
    };
}

// Each is a row: its name, how it was called before, what it does.
controllers! {
    "deployment-controller" "deployment" deployment::run;
    "disruption-controller" "disruption" disruption::run;
    "endpoints-controller" "endpoint" endpoints::run;
    "endpointslice-controller" "endpointslice" endpoint_slice::run;
    "node-lifecycle-controller" "nodelifecycle" node_lifecycle::run;
    "replicaset-controller" "replicaset" replica_set::run;
    "replicationcontroller-controller" "replicationcontroller" replica_set::run_replication_controllers;
    "statefulset-controller" "statefulset" stateful_set::run;
    "taint-eviction-controller" "taint-eviction-controller" taint_eviction::run;
}

/// Those that only an Atoll has: what they need is not to be had by the API alone.
const AT_HOME: [(&str, &str); 13] = [
    ("certificatesigningrequest-approving-controller", "csrapproving"),
    ("certificatesigningrequest-cleaner-controller", "csrcleaner"),
    ("certificatesigningrequest-signing-controller", "csrsigning"),
    ("clusterrole-aggregation-controller", "clusterrole-aggregation"),
    ("namespace-controller", "namespace"),
    ("persistentvolume-protection-controller", "pv-protection"),
    ("persistentvolumeclaim-protection-controller", "pvc-protection"),
    ("resourcequota-controller", "resourcequota"),
    ("root-ca-certificate-publisher-controller", "root-ca-cert-publisher"),
    ("serviceaccount-controller", "serviceaccount"),
    ("serviceaccount-token-controller", "serviceaccount-token"),
    ("volumeattributesclass-protection-controller", "vac-protection"),
    ("workspace-controller", "workspace"),
];

/// All names, and those that came before.
fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    CONTROLLERS.iter().map(|row| (row.name, row.alias)).chain(AT_HOME)
}

/// Which controllers run: `*` for all that are on by default, `name` for one, `-name` for all but one. Of what is said
/// of one by its name the first counts, as upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice(Vec<String>);

impl Default for Choice {
    fn default() -> Self {
        Choice(vec!["*".into()])
    }
}

impl Choice {
    /// Fails with the name that nobody has.
    pub fn new(words: Vec<String>, known: &[&str]) -> Result<Choice, String> {
        let unknown = words.iter().find(|word| {
            let name = word.strip_prefix('-').unwrap_or(word);
            name != "*" && !known.contains(&name)
        });
        match unknown {
            Some(word) => Err(format!("there is no controller {:?}", word.strip_prefix('-').unwrap_or(word))),
            None => Ok(Choice(words)),
        }
    }

    /// Of all that there are. `true` stands for all, `false` for none.
    pub fn parse(text: &str) -> Result<Choice, String> {
        let words: Vec<String> = match text {
            "true" => vec!["*".into()],
            "false" => Vec::new(),
            list => {
                list.split(',').map(|word| word.trim().to_string()).filter(|word| !word.is_empty()).collect()
            }
        };
        let known: Vec<&str> = names().flat_map(|(name, alias)| [name, alias]).collect();
        Choice::new(words, &known)
    }

    /// Whether any runs.
    pub fn any(&self) -> bool {
        self.0.iter().any(|word| !word.starts_with('-'))
    }

    /// Whether the one of that name runs.
    pub fn has(&self, name: &str) -> bool {
        let alias = names().find(|(known, _)| *known == name).map_or(name, |(_, alias)| alias);
        self.includes(name, alias)
    }

    pub fn includes(&self, name: &str, alias: &str) -> bool {
        let of = |word: &str| word == name || word == alias;
        let named = |word: &&String| of(word.strip_prefix('-').unwrap_or(word));
        match self.0.iter().find(named) {
            Some(word) => !word.starts_with('-'),
            None => self.0.iter().any(|word| word == "*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_controllers() {
        let known = ["deployment-controller", "deployment", "job-controller", "job"];
        for (words, deployment, job) in [
            ("*", true, true),
            ("", false, false),
            ("deployment", true, false),
            ("*,-deployment-controller", false, true),
            ("-job,*", true, false),
            ("*,-job,job", true, false),
        ] {
            let words = words.split(',').filter(|word| !word.is_empty()).map(String::from).collect();
            let choice = Choice::new(words, &known).unwrap();
            assert_eq!(choice.includes("deployment-controller", "deployment"), deployment, "{choice:?}");
            assert_eq!(choice.includes("job-controller", "job"), job, "{choice:?}");
        }
        for (text, any, namespaces, quotas) in [
            ("true", true, true, true),
            ("false", false, false, false),
            ("*,-namespace", true, false, true),
            ("-resourcequota-controller", false, false, false),
            ("namespace-controller", true, true, false),
        ] {
            let choice = Choice::parse(text).unwrap();
            let found =
                (choice.any(), choice.has("namespace-controller"), choice.has("resourcequota-controller"));
            assert_eq!(found, (any, namespaces, quotas), "{text}");
        }
        assert!(Choice::parse("*,-nobody").is_err());
        let error = Choice::new(vec!["*".into(), "-nobody".into()], &known).unwrap_err();
        assert_eq!(error, "there is no controller \"nobody\"");
    }
}
