//! Impersonation.
//!
//! There are two ways, as upstream. By the older one, a user with the verb `impersonate` on a user, group,
//! UID or extra value may impersonate it for all requests. By constrained impersonation, which is tried
//! first, impersonation can be limited to some requests: with `impersonate-on:MODE:VERB` on the requested
//! resource and `impersonate:MODE` on the impersonated user. The mode depends on that user: a node, the node
//! that the caller runs on, a ServiceAccount, or any other user.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation/impersonation.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation/constrained_impersonation.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation/mode.go

use std::collections::BTreeMap;

use atoll_authn::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};
use atoll_authz::{Attributes, Target, refusal};
use atoll_meta::quote::quote;
use atoll_meta::{FieldPath, Status, names};
use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The API group of UIDs and extras, which are neither users nor groups.
const AUTHENTICATION: &str = "authentication.k8s.io";
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const NODE_PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";
/// The extra that names the node on which a ServiceAccount runs.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// Number of values from which a wildcard permission is checked first.
const WILDCARD_THRESHOLD: usize = 4;

/// Authorizes attributes.
pub type Authorize<'a> = dyn Fn(&Attributes<'_>) -> Result<(), Status> + 'a;

/// Returns the user that the headers ask to impersonate, without implied groups.
pub fn requested_user(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let all = |name: &str| headers.get_all(name).iter().map(text);
    let one = |name: &str| all(name).next().unwrap_or_default();
    let groups: Vec<String> = all(GROUP).collect();
    let (name, uid) = (one(USER), one(UID));
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for header in headers.keys().filter(|name| name.as_str().starts_with(EXTRA)) {
        let key = header.as_str()[EXTRA.len()..].to_lowercase();
        let decoded = percent_decode_str(&key).decode_utf8().map(String::from);
        extra.entry(decoded.unwrap_or(key)).or_default().extend(all(header.as_str()));
    }
    let wanted = User { name, uid, groups, extra, home: None };
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty() {
        return Ok(None);
    }
    let message = format!("requested {} without impersonating a user name", go_format(&wanted));
    Err(Status::bad_request(message))
}

/// Formats a user as Go's `%#v` does.
fn go_format(user: &User) -> String {
    let list = |texts: &[String]| texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(", ");
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_string(),
        groups => format!("[]string{{{}}}", list(groups)),
    };
    let values =
        |(key, values): (&String, &Vec<String>)| format!("{}:[]string{{{}}}", quote(key), list(values));
    let extra = match user.extra.is_empty() {
        true => "map[string][]string(nil)".to_string(),
        false => {
            format!("map[string][]string{{{}}}", user.extra.iter().map(values).collect::<Vec<_>>().join(", "))
        }
    };
    let (name, uid) = (quote(&user.name), quote(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

/// Returns namespace and name of the ServiceAccount with this user name.
pub fn account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    let good = names::name_is_dns_label(namespace, false).is_empty()
        && names::name_is_dns_subdomain(name, false).is_empty();
    good.then_some((namespace, name))
}

fn node(user: &str) -> Option<&str> {
    let name = user.strip_prefix(NODE_PREFIX)?;
    names::name_is_dns_subdomain(name, false).is_empty().then_some(name)
}

/// Returns the impersonated user. `request` has the attributes of the request with its real caller.
pub fn impersonate(
    wanted: &User,
    request: &Attributes<'_>,
    authorize: &Authorize<'_>,
) -> Result<User, Status> {
    let mut refused = None;
    for mode in modes(wanted, request.user) {
        match mode.check(wanted, request, authorize) {
            Ok(user) => return Ok(user),
            Err(status) => refused = refused.or(Some(status)),
        }
    }
    Err(refused.unwrap_or_else(|| refusal(request, "")))
}

/// A mode of constrained impersonation, `None` for the older way.
struct Mode(Option<&'static str>);

const ASSOCIATED: &str = "associated-node";

/// Returns the modes that apply, in the order in which they are tried.
fn modes(wanted: &User, caller: &User) -> Vec<Mode> {
    let only_a_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
    let (node, account_of) = (node(&wanted.name), account(&wanted.name));
    let runs_on = match caller.extra.get(NODE_NAME).map(Vec::as_slice) {
        Some([name]) if account(&caller.name).is_some() => Some(name.as_str()),
        _ => None,
    };
    let candidates = [
        (only_a_name && node.is_some() && node == runs_on, Some(ASSOCIATED)),
        (only_a_name && node.is_some(), Some("arbitrary-node")),
        (only_a_name && account_of.is_some(), Some("serviceaccount")),
        (node.is_none() && account_of.is_none(), Some("user-info")),
        (true, None),
    ];
    candidates.into_iter().filter(|(fits, _)| *fits).map(|(_, mode)| Mode(mode)).collect()
}

impl Mode {
    fn check(
        &self,
        wanted: &User,
        request: &Attributes<'_>,
        authorize: &Authorize<'_>,
    ) -> Result<User, Status> {
        let user = request.user;
        if let Some(mode) = self.0 {
            let verb = format!("impersonate-on:{mode}:{}", request.verb);
            authorize(&Attributes { user, verb: &verb, target: request.target })?;
        }
        let verb = self.0.map_or("impersonate".to_string(), |mode| format!("impersonate:{mode}"));
        let group = if self.0.is_some() { AUTHENTICATION } else { "" };
        let permissions = PermissionCheck { user, verb: &verb, authorize, constrained: self.0.is_some() };
        let mut actual = wanted.clone();
        match (account(&wanted.name), node(&wanted.name).filter(|_| self.0.is_some())) {
            (Some((namespace, name)), _) => {
                if actual.groups.is_empty() {
                    let own = format!("system:serviceaccounts:{namespace}");
                    actual.groups = vec!["system:serviceaccounts".into(), own];
                }
                permissions.resource(group, "serviceaccounts", "", namespace, name)?;
            }
            (None, Some(name)) => {
                actual.groups = vec![NODES.into()];
                // The caller's own node needs no name.
                let name = if self.0 == Some(ASSOCIATED) { "*" } else { name };
                permissions.resource(group, "nodes", "", "", name)?;
            }
            (None, None) => permissions.resource(group, "users", "", "", &wanted.name)?,
        }
        if !wanted.uid.is_empty() {
            permissions.resource(AUTHENTICATION, "uids", "", "", &wanted.uid)?;
        }
        permissions.groups(group, &wanted.groups)?;
        permissions.extra(&wanted.extra)?;
        // Add the group of authenticated or unauthenticated users.
        let is_in = |group: &str| actual.groups.iter().any(|own| own == group);
        if actual.name == ANONYMOUS {
            if !is_in(UNAUTHENTICATED) {
                actual.groups.push(UNAUTHENTICATED.into());
            }
        } else if !is_in(UNAUTHENTICATED) && !is_in(AUTHENTICATED) {
            actual.groups.push(AUTHENTICATED.into());
        }
        Ok(actual)
    }
}

struct PermissionCheck<'a> {
    user: &'a User,
    verb: &'a str,
    authorize: &'a Authorize<'a>,
    constrained: bool,
}

impl PermissionCheck<'_> {
    fn attributes<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
    ) -> Attributes<'a> {
        let target = Target::Resource { group, resource, subresource, namespace, name };
        Attributes { user: self.user, verb: self.verb, target }
    }

    fn resource(
        &self,
        group: &str,
        resource: &str,
        sub: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), Status> {
        (self.authorize)(&self.attributes(group, resource, sub, namespace, name))
    }

    fn groups(&self, group: &str, wanted: &[String]) -> Result<(), Status> {
        let refuse =
            |name: &str, why: &str| Err(refusal(&self.attributes(group, "groups", "", "", name), why));
        if self.constrained && wanted.iter().any(String::is_empty) {
            return refuse("", "impersonating the empty string group is not allowed");
        }
        if self.constrained && wanted.iter().any(|wanted| wanted == MASTERS) {
            return refuse(MASTERS, "impersonating the system:masters group is not allowed");
        }
        let many = self.constrained && wanted.len() >= WILDCARD_THRESHOLD;
        if many && self.resource(group, "groups", "", "", "*").is_ok() {
            return Ok(());
        }
        wanted.iter().try_for_each(|wanted| self.resource(group, "groups", "", "", wanted))
    }

    fn extra(&self, wanted: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        let resource = "userextras";
        if self.constrained {
            wanted
                .iter()
                .try_for_each(|(key, values)| check_extra(key, values))
                .map_err(|why| refusal(&self.attributes(AUTHENTICATION, resource, "", "", ""), &why))?;
        }
        let values: usize = wanted.values().map(Vec::len).sum();
        let many = self.constrained && values.max(wanted.len()) >= WILDCARD_THRESHOLD;
        if many && self.resource(AUTHENTICATION, resource, "*", "", "*").is_ok() {
            return Ok(());
        }
        let mut values = wanted.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        values.try_for_each(|(key, value)| self.resource(AUTHENTICATION, resource, key, "", value))
    }
}

fn check_extra(key: &str, values: &[String]) -> Result<(), String> {
    if key.is_empty() {
        return Err("impersonating the empty string key in extra is not allowed".into());
    }
    let errors = names::domain_prefixed_path(&FieldPath::new("extra").child("key"), key);
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match errors.as_slice() {
        [] => {}
        [error] => return Err(format!("impersonating an invalid key in extra is not allowed: {error}")),
        errors => {
            let errors = errors.join(", ");
            return Err(format!("impersonating an invalid key in extra is not allowed: [{errors}]"));
        }
    }
    if key != key.to_lowercase() {
        return Err(format!("impersonating a non-lowercase key in extra is not allowed: {}", quote(key)));
    }
    if values.iter().any(String::is_empty) {
        return Err("impersonating the empty string value in extra is not allowed".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Impersonates with grants of the form `verb group/resource[/subresource] namespace/name`, where the
    /// name may be a star.
    fn impersonated(
        granted: &[&str],
        headers: &[(&'static str, &'static str)],
    ) -> Result<Option<User>, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a header"));
        }
        let caller = User::authenticated("eve".into(), String::new(), Vec::new());
        let authorize = |attributes: &Attributes<'_>| {
            let Target::Resource { group, resource, subresource, namespace, name } = attributes.target else {
                return Err(refusal(attributes, ""));
            };
            let line = |name: &str| {
                let resource = [resource, subresource].join("/");
                let resource = resource.trim_end_matches('/');
                format!("{} {group}/{resource} {namespace}/{name}", attributes.verb)
            };
            match granted.iter().any(|own| *own == line(name) || *own == line("*")) {
                true => Ok(()),
                false => Err(refusal(attributes, "")),
            }
        };
        let target =
            Target::Resource { group: "", resource: "pods", subresource: "", namespace: "n", name: "" };
        let request = Attributes { user: &caller, verb: "list", target };
        let wanted = requested_user(&map).map_err(|status| status.message().to_string())?;
        let impersonated = wanted.map(|wanted| impersonate(&wanted, &request, &authorize)).transpose();
        impersonated.map_err(|status| status.message().to_string())
    }

    #[test]
    fn unconstrained_impersonation_checks_each_attribute() {
        let all = [
            "impersonate /users /*",
            "impersonate /groups /dev",
            "impersonate authentication.k8s.io/uids /*",
            "impersonate authentication.k8s.io/userextras/scopes /a",
            "impersonate /serviceaccounts n/*",
        ];
        assert_eq!(impersonated(&all, &[]), Ok(None));
        let bob = impersonated(
            &all,
            &[(USER, "bob"), (GROUP, "dev"), (UID, "7"), ("impersonate-extra-Scopes", "a")],
        );
        let bob = bob.expect("allowed").expect("a user");
        assert_eq!((bob.name.as_str(), bob.uid.as_str()), ("bob", "7"));
        assert_eq!(bob.groups, ["dev", AUTHENTICATED]);
        assert_eq!(bob.extra["scopes"], ["a"]);
        let account =
            impersonated(&all, &[(USER, "system:serviceaccount:n:a")]).expect("allowed").expect("a user");
        assert_eq!(account.groups, ["system:serviceaccounts", "system:serviceaccounts:n", AUTHENTICATED]);
        let anonymous = impersonated(&all, &[(USER, ANONYMOUS)]).expect("allowed").expect("a user");
        assert_eq!(anonymous.groups, [UNAUTHENTICATED]);
        for headers in [
            &[(USER, "bob"), (GROUP, "ops")][..],
            &[(USER, "bob"), (GROUP, MASTERS)],
            &[(USER, "bob"), ("impersonate-extra-scopes", "b")],
            &[(USER, "bob"), ("impersonate-extra-scopes", "a"), ("impersonate-extra-scopes", "b")],
            &[(USER, "system:serviceaccount:m:a")],
        ] {
            assert!(impersonated(&all, headers).is_err(), "{headers:?}");
        }
        assert!(impersonated(&[], &[(USER, "bob")]).is_err());
    }

    #[test]
    fn constrained_impersonation_checks_the_request() {
        let group = "authentication.k8s.io";
        let on = |mode: &str| format!("impersonate-on:{mode}:list /pods n/*");
        let be = |mode: &str, what: &str| format!("impersonate:{mode} {group}/{what}");
        let cases: [(&str, &str, &str, &[&str]); 3] = [
            ("user-info", "users /*", "bob", &[AUTHENTICATED]),
            (
                "serviceaccount",
                "serviceaccounts n/*",
                "system:serviceaccount:n:a",
                &["system:serviceaccounts", "system:serviceaccounts:n", AUTHENTICATED],
            ),
            ("arbitrary-node", "nodes /n1", "system:node:n1", &[NODES, AUTHENTICATED]),
        ];
        for (mode, what, name, groups) in cases {
            let (on, be) = (on(mode), be(mode, what));
            let user = impersonated(&[&on, &be], &[(USER, name)]).expect("allowed").expect("a user");
            assert_eq!(user.groups, groups, "{mode}");
            let refused = impersonated(&[&be], &[(USER, name)]).expect_err("not for this request");
            assert!(
                refused.contains(&format!("cannot impersonate-on:{mode}:list resource \"pods\"")),
                "{refused}"
            );
            let refused = impersonated(&[&on], &[(USER, name)]).expect_err("not as this one");
            assert!(refused.contains(&format!("cannot impersonate:{mode} resource")), "{refused}");
        }
        let all = [on("user-info"), be("user-info", "users /*"), be("user-info", "groups /*")];
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let refused = impersonated(&all, &[(USER, "bob"), (GROUP, MASTERS)]).expect_err("too much");
        assert!(refused.ends_with(": impersonating the system:masters group is not allowed"), "{refused}");
        // Groups of a node cannot be impersonated.
        assert!(
            impersonated(
                &[&on("arbitrary-node"), &be("arbitrary-node", "nodes /n1")],
                &[(USER, "system:node:n1"), (GROUP, "g")]
            )
            .is_err()
        );
    }

    #[test]
    fn user_name_is_required() {
        assert_eq!(
            impersonated(&[], &[(GROUP, "x"), ("impersonate-extra-a%2fb", "1")]),
            Err("requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"x\"}, Extra:map[string][]string{\"a/b\":[]string{\"1\"}}} \
                 without impersonating a user name"
                .into())
        );
    }
}
