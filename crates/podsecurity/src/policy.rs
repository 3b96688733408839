//! What the labels of a namespace say.

use std::fmt;

use atoll_meta::{FieldError, FieldPath};

/// How much Pods may do; each allows less than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// As of which version of Kubernetes the rules are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `v1.` and this.
    Minor(u64),
    Latest,
}

/// What pods must meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub level: Level,
    pub version: Version,
}

/// What happens to Pods that break a rule, by rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub enforce: Rule,
    pub audit: Rule,
    pub warn: Rule,
}

const NONE: Rule = Rule { level: Level::Privileged, version: Version::Latest };

/// Labels of a namespace that say which level its pods must meet, and as of which version.
pub const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
pub const ENFORCE_VERSION: &str = "pod-security.kubernetes.io/enforce-version";

/// Level and version of what is enforced, what is noted and what is warned of.
pub const LABELS: [(&str, &str); 3] = [
    (ENFORCE, ENFORCE_VERSION),
    ("pod-security.kubernetes.io/audit", "pod-security.kubernetes.io/audit-version"),
    ("pod-security.kubernetes.io/warn", "pod-security.kubernetes.io/warn-version"),
];

impl Policy {
    /// The policy of these labels, and what is wrong with them. What cannot be understood is enforced as the strictest.
    pub fn of<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Policy, Vec<FieldError>) {
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
        let rule = |(level, version): (Option<Option<Level>>, Option<Version>), unclear: Level| Rule {
            level: level.map_or(NONE.level, |level| level.unwrap_or(unclear)),
            version: version.unwrap_or(NONE.version),
        };
        let mut policy = Policy {
            enforce: rule(enforce, Level::Restricted),
            audit: rule(audit, Level::Privileged),
            warn: rule(warn, Level::Privileged),
        };
        // Who enforces something also wants to hear of it.
        if warn.0.is_none() && matches!(enforce.0, Some(Some(level)) if level > policy.warn.level) {
            policy.warn.level = policy.enforce.level;
            if warn.1.is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    pub fn allows_all(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|rule| rule.level == Level::Privileged)
    }
}

fn invalid(key: &str, value: &str, message: &str) -> FieldError {
    FieldError::invalid(&FieldPath::new("metadata").child("labels").key(key), value, message)
}

impl Level {
    /// All of them, as they are written.
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

impl fmt::Display for Rule {
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
    fn labels_become_rules() {
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
            let (policy, errors) = Policy::of(find);
            let rules = [policy.enforce, policy.audit, policy.warn].map(|rule| rule.to_string());
            assert_eq!(rules, *expected, "{labels:?}");
            assert_eq!(errors.len(), *wrong, "{labels:?}");
        }
    }
}
