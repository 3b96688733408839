//! Acting as somebody else, for those who may.

use atoll_authn::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};
use atoll_authz::{Attributes, Target};
use atoll_meta::Status;
use http::HeaderMap;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The user that a request is to be carried out as: whoever sent it, unless its headers say otherwise.
pub fn acting_as(user: User, headers: &HeaderMap) -> Result<User, Status> {
    let all = |name: &str| headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let one = |name: &str| all(name).next().unwrap_or_default().to_string();
    let mut groups: Vec<String> = all(GROUP).map(String::from).collect();
    let (name, uid) = (one(USER), one(UID));
    let extra = headers.keys().find(|name| name.as_str().starts_with(EXTRA));
    if name.is_empty() {
        return match !groups.is_empty() || !uid.is_empty() || extra.is_some() {
            false => Ok(user),
            true => Err(Status::bad_request("requested impersonation without impersonating a user")),
        };
    }
    let may = |group: &str, resource: &str, namespace: &str, name: &str| {
        let target = Target::Resource { group, resource, subresource: "", namespace, name };
        atoll_authz::authorize(&Attributes { user: &user, verb: "impersonate", target })
    };
    let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    match account {
        Some((namespace, account)) => may("", "serviceaccounts", namespace, account)?,
        None => may("", "users", "", &name)?,
    }
    groups.iter().try_for_each(|group| may("", "groups", "", group))?;
    if !uid.is_empty() {
        may("authentication.k8s.io", "uids", "", &uid)?;
    }
    if let Some(extra) = extra {
        may("authentication.k8s.io", "userextras", "", extra.as_str())?;
    }
    if let (Some((namespace, _)), true) = (account, groups.is_empty()) {
        groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    }
    // Everybody is one or the other, and nobody is both.
    let own = if name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        groups.push(own.into());
    }
    Ok(User { name, uid, groups, extra: Default::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acted(user: &str, group: &str, headers: &[(&'static str, &'static str)]) -> Result<User, u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a header"));
        }
        let user = User::authenticated(user.into(), String::new(), vec![group.into()]);
        acting_as(user, &map).map_err(|status| status.code())
    }

    #[test]
    fn administrators_act_as_others_and_nobody_else_does() {
        let masters = "system:masters";
        let plain = acted("admin", masters, &[]).expect("nothing asked");
        assert_eq!(plain.name, "admin");
        let bob = acted("admin", masters, &[(USER, "bob")]).expect("allowed");
        assert_eq!((bob.name.as_str(), bob.groups.as_slice()), ("bob", &[AUTHENTICATED.to_string()][..]));
        let grouped = acted("admin", masters, &[(USER, "bob"), (GROUP, "dev"), (GROUP, "ops"), (UID, "7")]);
        let grouped = grouped.expect("allowed");
        assert_eq!(grouped.groups, ["dev", "ops", AUTHENTICATED]);
        assert_eq!(grouped.uid, "7");
        let account = acted("admin", masters, &[(USER, "system:serviceaccount:n:a")]).expect("allowed");
        assert_eq!(account.groups, ["system:serviceaccounts", "system:serviceaccounts:n", AUTHENTICATED]);
        let nobody = acted("admin", masters, &[(USER, ANONYMOUS)]).expect("allowed");
        assert_eq!(nobody.groups, [UNAUTHENTICATED]);
        assert_eq!(acted("eve", "dev", &[(USER, "admin"), (GROUP, masters)]), Err(403));
        assert_eq!(acted("admin", masters, &[(GROUP, "dev")]), Err(400));
        assert_eq!(acted("admin", masters, &[("impersonate-extra-scopes", "all")]), Err(400));
    }
}
