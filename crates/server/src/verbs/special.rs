//! Requests that no generic verb handles: subresources that are actions or objects of their own, and resources
//! whose objects are not stored.

use std::sync::Arc;

use atoll_meta::Status;
use atoll_registry::{Row, placement};
use http::Response;

use super::{binding, components, eviction, placement as placements, review, scale, token};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::request::RequestInfo;

/// A verb of its own, instead of a generic one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialVerb {
    Bind,
    Evict,
    Scale,
    Place,
    IssueToken,
    Review,
    GetComponent,
    ListComponents,
}

/// Subresources, for all verbs.
static SUBRESOURCES: [(&str, SpecialVerb); 5] = [
    ("binding", SpecialVerb::Bind),
    ("eviction", SpecialVerb::Evict),
    ("scale", SpecialVerb::Scale),
    ("token", SpecialVerb::IssueToken),
    (placement::SUBRESOURCE, SpecialVerb::Place),
];

/// Resources whose objects are not stored, by group, resource and verb.
static UNSTORED: [(&str, &str, &str, SpecialVerb); 9] = [
    ("", "bindings", "create", SpecialVerb::Bind),
    ("", "componentstatuses", "get", SpecialVerb::GetComponent),
    ("", "componentstatuses", "list", SpecialVerb::ListComponents),
    ("authentication.k8s.io", "selfsubjectreviews", "create", SpecialVerb::Review),
    ("authentication.k8s.io", "tokenreviews", "create", SpecialVerb::Review),
    ("authorization.k8s.io", "localsubjectaccessreviews", "create", SpecialVerb::Review),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "create", SpecialVerb::Review),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "create", SpecialVerb::Review),
    ("authorization.k8s.io", "subjectaccessreviews", "create", SpecialVerb::Review),
];

impl SpecialVerb {
    /// The verb of a request, if it is a special one.
    pub fn of(row: &Row, info: &RequestInfo) -> Option<SpecialVerb> {
        if !info.subresource.is_empty() {
            return SUBRESOURCES.iter().find(|(name, _)| *name == info.subresource).map(|(_, verb)| *verb);
        }
        if row.strategy.is_stored {
            return None;
        }
        let request = (row.group.as_str(), row.resource.as_str(), info.verb);
        let entry = UNSTORED.iter().find(|(group, resource, verb, _)| (*group, *resource, *verb) == request);
        entry.map(|(.., verb)| *verb)
    }

    pub async fn handle(
        self,
        server: &Arc<Server>,
        row: &Row,
        call: &Call,
    ) -> Result<Response<Body>, Status> {
        match self {
            SpecialVerb::Bind => binding::handle(server, row, call).await,
            SpecialVerb::Evict => eviction::handle(server, row, call).await,
            SpecialVerb::Scale => scale::handle(server, row, call).await,
            SpecialVerb::Place => placements::handle(server, row, call).await,
            SpecialVerb::IssueToken => token::handle(server, row, call).await,
            SpecialVerb::Review => review::handle(server, row, call).await,
            SpecialVerb::GetComponent => components::get(server, row, call).await,
            SpecialVerb::ListComponents => components::list(server, row, call).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use atoll_registry::{Catalog, Profile};

    use super::*;
    use crate::query::Query;

    /// The generic verbs would store objects of these resources.
    #[test]
    fn every_verb_of_an_unstored_resource_is_special() {
        let catalog = Catalog::new(Profile::Full);
        let mut count = 0;
        for row in catalog.rows().iter().filter(|row| !row.strategy.is_stored) {
            let path = match row.group.as_str() {
                "" => format!("/api/{}/{}", row.version, row.resource),
                group => format!("/apis/{group}/{}/{}", row.version, row.resource),
            };
            let parsed = RequestInfo::parse(&http::Method::GET, &path, &Query::parse(""));
            let mut info = parsed.expect("a path of a resource");
            for verb in ["create", "delete", "deletecollection", "get", "list", "patch", "update"] {
                info.verb = verb;
                assert_eq!(SpecialVerb::of(row, &info).is_some(), row.serves(verb), "{verb} {path}");
                count += 1;
            }
        }
        assert_eq!(count, 8 * 7);
    }

    #[test]
    fn custom_resources_are_generic_whatever_their_names() {
        let catalog = Catalog::new(Profile::Full);
        let mut row = Row::clone(catalog.find("", "v1", "configmaps").expect("a row"));
        (row.group, row.resource) = ("example.com".into(), "bindings".into());
        let path = "/apis/example.com/v1/namespaces/default/bindings";
        let info = RequestInfo::parse(&http::Method::POST, path, &Query::parse("")).expect("a path");
        assert_eq!(info.verb, "create");
        assert_eq!(SpecialVerb::of(&row, &info), None);
    }
}
