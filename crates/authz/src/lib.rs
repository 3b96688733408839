//! May they: what a user is allowed to do, denied by default.
//!
//! Health and version paths are open to everyone; all else is for the group `system:masters`.

use atoll_authn::{MASTERS, User};
use atoll_meta::Status;

/// What someone wants to do.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    pub user: &'a User,
    pub verb: &'a str,
    pub target: Target<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    Resource {
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
    },
    /// A path that is not a resource, such as `/healthz`.
    Path(&'a str),
}

/// Paths that tell nothing but the server's health and version.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Refuses with the Status that upstream gives.
pub fn authorize(attributes: &Attributes<'_>) -> Result<(), Status> {
    if attributes.user.is_in(MASTERS) {
        return Ok(());
    }
    match attributes.target {
        Target::Path(path) if attributes.verb == "get" && is_public(path) => Ok(()),
        _ => Err(forbidden(attributes)),
    }
}

fn is_public(path: &str) -> bool {
    PUBLIC.iter().any(|public| {
        path.strip_prefix(public).is_some_and(|rest| {
            // `/version/` is upstream's too, but only checks have paths below them.
            rest.is_empty() || rest == "/" || (rest.starts_with('/') && *public != "/version")
        })
    })
}

fn forbidden(attributes: &Attributes<'_>) -> Status {
    let (user, verb) = (&attributes.user.name, attributes.verb);
    match attributes.target {
        Target::Path(path) => {
            let message = format!("User {user:?} cannot {verb} path {path:?}");
            Status::forbidden("", "", "", message)
        }
        Target::Resource { group, resource, subresource, namespace, name } => {
            let shown = match subresource {
                "" => resource.to_string(),
                subresource => format!("{resource}/{subresource}"),
            };
            let mut message =
                format!("User {user:?} cannot {verb} resource {shown:?} in API group {group:?}");
            match namespace {
                "" => message.push_str(" at the cluster scope"),
                namespace => message.push_str(&format!(" in the namespace {namespace:?}")),
            }
            Status::forbidden(group, resource, name, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource<'a>(subresource: &'a str, namespace: &'a str, name: &'a str) -> Target<'a> {
        Target::Resource { group: "apps", resource: "deployments", subresource, namespace, name }
    }

    #[test]
    fn only_masters_get_beyond_health_and_version() {
        let master = User::authenticated("root".into(), String::new(), vec![MASTERS.into()]);
        let other = User::authenticated("ann".into(), String::new(), vec!["dev".into()]);
        let anonymous = User::anonymous();
        let cases = [
            (&master, "delete", resource("", "a", "b"), true),
            (&master, "post", Target::Path("/anything"), true),
            (&other, "get", resource("", "a", "b"), false),
            (&anonymous, "list", resource("", "a", ""), false),
            (&anonymous, "get", Target::Path("/healthz"), true),
            (&anonymous, "get", Target::Path("/readyz/ping"), true),
            (&anonymous, "get", Target::Path("/version"), true),
            (&anonymous, "get", Target::Path("/version/"), true),
            (&anonymous, "post", Target::Path("/version"), false),
            (&anonymous, "get", Target::Path("/versions"), false),
            (&anonymous, "get", Target::Path("/version/x"), false),
            (&anonymous, "get", Target::Path("/metrics"), false),
            (&other, "get", Target::Path("/"), false),
        ];
        for (user, verb, target, allowed) in cases {
            let decision = authorize(&Attributes { user, verb, target });
            assert_eq!(decision.is_ok(), allowed, "{user:?} {verb} {target:?}");
        }
    }

    #[test]
    fn refusals_are_worded_as_upstream() {
        let user = User::anonymous();
        let cases = [
            (
                resource("", "golden", ""),
                "deployments.apps is forbidden: User \"system:anonymous\" cannot list resource \"deployments\" in API group \"apps\" in the namespace \"golden\"",
            ),
            (
                resource("scale", "", "x"),
                "deployments.apps \"x\" is forbidden: User \"system:anonymous\" cannot list resource \"deployments/scale\" in API group \"apps\" at the cluster scope",
            ),
            (Target::Path("/"), "forbidden: User \"system:anonymous\" cannot list path \"/\""),
        ];
        for (target, message) in cases {
            let status = authorize(&Attributes { user: &user, verb: "list", target }).unwrap_err();
            assert_eq!(status.message(), message);
        }
    }
}
