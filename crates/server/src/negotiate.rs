//! Content negotiation: media types of requests and responses, and forms of objects.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go

mod accept;

use atoll_meta::Status;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue};

use crate::query::Query;
use crate::request::RequestInfo;
pub use accept::{Clause, clauses};

/// Media type and form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    pub media: Media,
    pub form: Form,
    /// Media type of an error.
    refusal: Media,
    /// Seconds by which the server's clock, which determines ages, is ahead of the machine's.
    pub skew: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Json { pretty: bool },
    Yaml,
    Protobuf,
}

/// The representation of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The object or list itself.
    Whole,
    /// An object's metadata.
    Metadata(Meta),
    /// A list of metadata.
    MetadataList(Meta),
    Table(Meta, Include),
}

/// Versions of `meta.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meta {
    V1,
    V1beta1,
}

/// The part of its object that a table row contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    Metadata,
    Object,
    None,
    /// An invalid value: refused when a table is rendered.
    Unknown,
}

/// Media type of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Json,
    Yaml,
    Protobuf,
}

/// Upstream's list of available media types.
const AVAILABLE: [&str; 5] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// Number of types for complete responses; the others are for watches.
const WHOLE: usize = 3;

/// The media types and forms that a route supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    /// A resource, either with a known type or as JSON only.
    Resource { typed: bool, tables: bool },
    /// Anything else: no transformations.
    Plain,
}

/// Whether upstream can render the response to such a request as a table. Reviews and actions have no tables.
fn has_tables(info: &RequestInfo) -> bool {
    const NEVER: [&str; 7] =
        ["approval", "binding", "ephemeralcontainers", "eviction", "finalize", "resize", "token"];
    match info.subresource.as_str() {
        "" => match info.group.as_str() {
            "" => info.resource != "bindings",
            "authentication.k8s.io" | "authorization.k8s.io" => false,
            _ => true,
        },
        other => !NEVER.contains(&other),
    }
}

impl Meta {
    pub fn api_version(self) -> &'static str {
        match self {
            Meta::V1 => "meta.k8s.io/v1",
            Meta::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

impl Media {
    const JSON: Media = Media::Json { pretty: false };

    pub fn content_type(self) -> &'static str {
        match self {
            Media::Json { .. } => AVAILABLE[0],
            Media::Yaml => AVAILABLE[1],
            Media::Protobuf => AVAILABLE[2],
        }
    }

    pub fn of_watch(self) -> &'static str {
        match self {
            Media::Protobuf => AVAILABLE[4],
            _ => AVAILABLE[0],
        }
    }
}

impl Output {
    /// JSON on one line.
    pub const COMPACT: Output = Output::whole(Media::JSON);
    /// Indented JSON.
    pub const INDENTED: Output = Output::whole(Media::Json { pretty: true });

    pub const fn whole(media: Media) -> Self {
        Output { media, form: Form::Whole, refusal: media, skew: 0 }
    }

    /// Negotiates in two steps, as upstream: first what the route can produce, then what the kind can be
    /// encoded as.
    pub fn negotiate(headers: &HeaderMap, info: &RequestInfo, query: &Query) -> Result<Self, Status> {
        let clauses = clauses(text(headers.get(ACCEPT)));
        let produced =
            |clause: &Clause<'_>| clause.is_anything() || AVAILABLE[..WHOLE].contains(&clause.media);
        if !clauses.iter().any(produced) {
            // Lists and watches have the same route.
            let listed = matches!(info.verb, "list" | "watch");
            return Err(Status::not_acceptable(&AVAILABLE[..if listed { AVAILABLE.len() } else { WHOLE }]));
        }
        let pretty = wants_pretty(headers, query);
        let endpoint = match info.is_resource {
            true => Endpoint::Resource { typed: true, tables: has_tables(info) },
            false => Endpoint::Plain,
        };
        Output::choose(&clauses, endpoint, info, query, pretty)
    }

    /// For a kind that is available as JSON only.
    pub fn of_untyped(headers: &HeaderMap, info: &RequestInfo, query: &Query) -> Result<Self, Status> {
        let pretty = wants_pretty(headers, query);
        let endpoint = Endpoint::Resource { typed: false, tables: has_tables(info) };
        Output::choose(&clauses(text(headers.get(ACCEPT))), endpoint, info, query, pretty)
    }

    fn choose(
        clauses: &[Clause<'_>],
        endpoint: Endpoint,
        info: &RequestInfo,
        query: &Query,
        pretty: bool,
    ) -> Result<Self, Status> {
        let (whole, watches) = AVAILABLE.split_at(WHOLE);
        let include = || match query.get("includeObject") {
            None | Some("" | "Metadata") => Include::Metadata,
            Some("Object") => Include::Object,
            Some("None") => Include::None,
            Some(_) => Include::Unknown,
        };
        let chosen = accept::choose(clauses, endpoint, &include);
        let (media, form) = chosen.ok_or_else(|| Status::not_acceptable_types(whole))?;
        if info.verb == "watch" && media == Media::Yaml {
            return Err(Status::not_acceptable_types(watches));
        }
        let refusal = accept::refusal(clauses, pretty);
        Ok(Output { media: media.indented(pretty), form, refusal, skew: 0 })
    }

    /// For responses that are available as JSON only.
    pub fn check_json(headers: &HeaderMap) -> Result<(), Status> {
        Output::check_only(headers, AVAILABLE[0])
    }

    /// Rejects clients that do not accept the only available type.
    pub fn check_only(headers: &HeaderMap, available: &str) -> Result<(), Status> {
        let fits = |clause: &Clause<'_>| clause.is_anything() || clause.media == available;
        match clauses(text(headers.get(ACCEPT))).iter().any(fits) {
            true => Ok(()),
            false => Err(Status::not_acceptable(&[available])),
        }
    }

    /// Negotiates the media type of a discovery document, which has no other forms.
    pub fn of_document(headers: &HeaderMap) -> Result<Self, Status> {
        Output::negotiate(headers, &RequestInfo::default(), &Query::default())
    }

    /// Chooses the media type of an error. Clients that accept no available type get indented JSON.
    pub fn of_error(headers: &HeaderMap, query: &Query) -> Self {
        Output::of_refusal(headers.get(ACCEPT), wants_pretty(headers, query))
    }

    /// The same from the Accept header alone.
    pub fn of_refusal(accept: Option<&HeaderValue>, pretty: bool) -> Self {
        Output::whole(accept::refusal(&clauses(text(accept)), pretty))
    }

    /// The same for an error after negotiation.
    pub fn refusal(self) -> Self {
        Output::whole(self.refusal)
    }
}

impl Media {
    fn indented(self, wanted: bool) -> Self {
        match self {
            Media::Json { pretty } => Media::Json { pretty: pretty || wanted },
            other => other,
        }
    }
}

/// Returns the Accept header, `*/*` if there is none.
fn text(accept: Option<&HeaderValue>) -> &str {
    let header = accept.map_or("", |value| value.to_str().unwrap_or("?"));
    if header.trim().is_empty() { "*/*" } else { header }
}

impl Input {
    pub fn negotiate(headers: &HeaderMap) -> Result<Self, Status> {
        match media_type(headers).as_deref() {
            None | Some("application/json") => Ok(Input::Json),
            Some("application/yaml") => Ok(Input::Yaml),
            Some("application/vnd.kubernetes.protobuf") => Ok(Input::Protobuf),
            _ => Err(Status::unsupported_media_type(&AVAILABLE[..WHOLE])),
        }
    }
}

/// Returns the media type of the body, without parameters, in lower case.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().unwrap_or("?");
    if value.is_empty() {
        return None;
    }
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// Browsers and curl get indented JSON, as upstream.
pub fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(pretty) = query.get("pretty").filter(|pretty| !pretty.is_empty()) {
        return matches!(pretty, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|person| agent.starts_with(person))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: Result<(Media, Form), u16> = Ok((Media::JSON, Form::Whole));
    const YAML: Result<(Media, Form), u16> = Ok((Media::Yaml, Form::Whole));
    const PROTOBUF: Result<(Media, Form), u16> = Ok((Media::Protobuf, Form::Whole));

    fn headers(accept: &str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())])
    }

    fn info(verb: &'static str) -> RequestInfo {
        RequestInfo { verb, is_resource: true, ..RequestInfo::default() }
    }

    fn shown(output: Result<Output, Status>) -> Result<(Media, Form), u16> {
        output.map(|output| (output.media, output.form)).map_err(|status| status.code())
    }

    #[test]
    fn the_preferred_available_type_wins() {
        let table = Ok((Media::JSON, Form::Table(Meta::V1, Include::Metadata)));
        let cases = [
            ("", "get", JSON),
            ("*/*", "get", JSON),
            ("application/json", "get", JSON),
            ("application/yaml", "get", YAML),
            ("application/yaml;q=0.5, application/json", "get", JSON),
            ("application/json;q=0.1,application/yaml;q=0.9", "get", YAML),
            ("application/yaml;q=x,application/json;q=0.1", "get", JSON),
            ("*/*,application/yaml", "get", YAML),
            ("application/vnd.kubernetes.protobuf,application/json", "list", PROTOBUF),
            ("application/vnd.kubernetes.protobuf;stream=watch", "watch", PROTOBUF),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "list", table),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
                "list",
                Ok((Media::JSON, Form::Table(Meta::V1beta1, Include::Metadata))),
            ),
            ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", "list", Err(406)),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                "get",
                Ok((Media::Protobuf, Form::Metadata(Meta::V1))),
            ),
            ("application/json;as=Tabel;v=v1;g=meta.k8s.io", "list", Err(406)),
            ("application/json;as=Table;v=v2;g=meta.k8s.io,application/yaml", "list", YAML),
            ("application/vnd.kubernetes.protobuf", "get", PROTOBUF),
            ("application/yaml", "watch", Err(406)),
            ("application/yaml,application/json", "watch", Err(406)),
            ("text/plain", "get", Err(406)),
            ("nonsense", "get", Err(406)),
            ("application/json;q=0", "get", JSON),
            ("application/*", "get", Err(406)),
            ("application/*,*/*", "get", JSON),
            ("application/json;v=v9", "get", Err(406)),
            ("application/json;sv=v1", "get", JSON),
            ("application/json;sv=v2", "get", Err(406)),
            ("application/json;stream=other", "watch", Err(406)),
            ("application/json;pretty=1", "get", Ok((Media::Json { pretty: true }, Form::Whole))),
        ];
        for (accept, verb, expected) in cases {
            let output = Output::negotiate(&headers(accept), &info(verb), &Query::default());
            assert_eq!(shown(output), expected, "{accept} {verb}");
        }
    }

    #[test]
    fn untyped_kinds_are_never_protobuf() {
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let cases = [
            ("application/vnd.kubernetes.protobuf", Err(406)),
            ("application/vnd.kubernetes.protobuf,application/json", JSON),
            (metadata, Ok((Media::Protobuf, Form::Metadata(Meta::V1)))),
        ];
        for (accept, expected) in cases {
            let output = Output::of_untyped(&headers(accept), &info("get"), &Query::default());
            assert_eq!(shown(output), expected, "{accept}");
        }
    }

    #[test]
    fn errors_have_their_own_media_type() {
        let indented = Media::Json { pretty: true };
        let cases = [
            ("", Media::JSON),
            ("application/yaml", Media::Yaml),
            ("application/vnd.kubernetes.protobuf", Media::Protobuf),
            ("application/json;as=Table;v=v1;g=meta.k8s.io", indented),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Media::JSON),
            ("application/*", Media::JSON),
            ("text/plain", indented),
        ];
        for (accept, expected) in cases {
            assert_eq!(Output::of_error(&headers(accept), &Query::default()).media, expected, "{accept}");
        }
        let mut person = headers("application/json");
        person.insert(USER_AGENT, "curl/8.0".parse().unwrap());
        assert_eq!(Output::of_error(&person, &Query::default()).media, indented);
        assert_eq!(Output::of_error(&person, &Query::parse("pretty=0")).media, Media::JSON);
    }
}
