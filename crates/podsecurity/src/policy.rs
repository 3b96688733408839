//! The policy in the labels of a namespace.

// upstream: staging/src/k8s.io/pod-security-admission/api/helpers.go
// upstream: staging/src/k8s.io/pod-security-admission/api/constants.go

use std::fmt;

use atoll_meta::{FieldError, FieldPath};

/// A level of the Pod Security Standards. Each level is stricter than the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// The version of Kubernetes whose checks apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `v1.<minor>`.
    Minor(u64),
    Latest,
}

/// A level and the version of its checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelVersion {
    pub level: Level,
    pub version: Version,
}

/// The level and version for each mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub enforce: LevelVersion,
    pub audit: LevelVersion,
    pub warn: LevelVersion,
}

const NONE: LevelVersion = LevelVersion { level: Level::Privileged, version: Version::Latest };

/// Labels of a namespace with the enforced level and its version.
pub const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
pub const ENFORCE_VERSION: &str = "pod-security.kubernetes.io/enforce-version";

/// Labels with the level and the version for the modes enforce, audit and warn.
pub const LABELS: [(&str, &str); 3] = [
    (ENFORCE, ENFORCE_VERSION),
    ("pod-security.kubernetes.io/audit", "pod-security.kubernetes.io/audit-version"),
    ("pod-security.kubernetes.io/warn", "pod-security.kubernetes.io/warn-version"),
];

impl Policy {
    /// Parses the labels of a namespace. An invalid enforced level counts as restricted.
    pub fn from_labels<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Policy, Vec<FieldError>) {
        let mut errors = Vec::new();
        let [enforce, audit, warn] = LABELS.map(|(level, version)| {
            let level = label(level).map(|text| {
                let parsed = Level::parse(text);
                if parsed.is_none() {
                    errors.push(invalid(level, text, "must be one of privileged, baseline, restricted"));
                }
                parsed
            });
            let version = label(version).map(|text| {
                Version::parse(text).unwrap_or_else(|| {
                    errors.push(invalid(version, text, "must be \"latest\" or \"v1.x\""));
                    Version::Latest
                })
            });
            (level, version)
        });
        let level_version = |(level, version): (Option<Option<Level>>, Option<Version>),
                             invalid_level: Level| LevelVersion {
            level: level.map_or(NONE.level, |level| level.unwrap_or(invalid_level)),
            version: version.unwrap_or(NONE.version),
        };
        let mut policy = Policy {
            enforce: level_version(enforce, Level::Restricted),
            audit: level_version(audit, Level::Privileged),
            warn: level_version(warn, Level::Privileged),
        };
        // The enforced level is also the default for warnings.
        if warn.0.is_none() && matches!(enforce.0, Some(Some(level)) if level > policy.warn.level) {
            policy.warn.level = policy.enforce.level;
            if warn.1.is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    pub fn allows_all(&self) -> bool {
        [self.enforce, self.audit, self.warn]
            .iter()
            .all(|level_version| level_version.level == Level::Privileged)
    }
}

fn invalid(key: &str, value: &str, message: &str) -> FieldError {
    FieldError::invalid(&FieldPath::new("metadata").child("labels").key(key), value, message)
}

impl Level {
    /// All level names.
    pub const NAMES: [&str; 3] = ["privileged", "baseline", "restricted"];

    pub fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }

    pub fn parse(text: &str) -> Option<Level> {
        match text {
            "privileged" => Some(Level::Privileged),
            "baseline" => Some(Level::Baseline),
            "restricted" => Some(Level::Restricted),
            _ => None,
        }
    }
}

impl Version {
    fn parse(text: &str) -> Option<Version> {
        if text == "latest" {
            return Some(Version::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let plain =
            minor.bytes().all(|byte| byte.is_ascii_digit()) && (minor == "0" || !minor.starts_with('0'));
        let minor: i64 = minor.parse().ok().filter(|_| plain)?;
        u64::try_from(minor).ok().map(Version::Minor)
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.name(), self.version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Latest => f.write_str("latest"),
            Version::Minor(minor) => write!(f, "v1.{minor}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_parsed() {
        type Labels = &'static [(&'static str, &'static str)];
        let cases: &[(Labels, [&str; 3], usize)] = &[
            (&[], ["privileged:latest", "privileged:latest", "privileged:latest"], 0),
            (&[("enforce", "baseline")], ["baseline:latest", "privileged:latest", "baseline:latest"], 0),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.24")],
                ["restricted:v1.24", "privileged:latest", "restricted:v1.24"],
                0,
            ),
            (
                &[("enforce", "restricted"), ("warn-version", "v1.2")],
                ["restricted:latest", "privileged:latest", "restricted:v1.2"],
                0,
            ),
            (
                &[("enforce", "restricted"), ("warn", "privileged"), ("audit", "baseline")],
                ["restricted:latest", "baseline:latest", "privileged:latest"],
                0,
            ),
            (
                &[("enforce", "x"), ("audit", "x"), ("warn", "x")],
                ["restricted:latest", "privileged:latest", "privileged:latest"],
                3,
            ),
            (
                &[("enforce-version", "v1.01"), ("warn-version", "1.1"), ("audit-version", "v1.")],
                ["privileged:latest", "privileged:latest", "privileged:latest"],
                3,
            ),
        ];
        for (labels, expected, wrong) in cases {
            let find = |key: &str| {
                let mode = key.strip_prefix("pod-security.kubernetes.io/").expect("a known label");
                labels.iter().find(|(own, _)| *own == mode).map(|(_, value)| *value)
            };
            let (policy, errors) = Policy::from_labels(find);
            let rules =
                [policy.enforce, policy.audit, policy.warn].map(|level_version| level_version.to_string());
            assert_eq!(rules, *expected, "{labels:?}");
            assert_eq!(errors.len(), *wrong, "{labels:?}");
        }
    }
}
