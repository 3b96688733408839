//! Which media types come in and go out.

use atoll_meta::Status;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};

use crate::query::Query;
use crate::request::RequestInfo;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Json { pretty: bool },
    Yaml,
}

/// How a request body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Json,
    Yaml,
    Protobuf,
}

/// What upstream says it could have sent.
const AVAILABLE: [&str; 5] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// The first of them are for whole answers, the last for watches.
const WHOLE: usize = 3;

/// One clause of an Accept header.
pub struct Clause<'a> {
    pub media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl Clause<'_> {
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// A clause that asks for another form of the object than the object itself.
    pub fn is_transformed(&self) -> bool {
        ["as", "g", "v"].iter().any(|name| self.parameter(name).is_some())
    }
}

/// The clauses of the Accept header, most wanted first.
pub fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<(f32, Clause<'_>)> = header
        .split(',')
        .filter(|clause| !clause.trim().is_empty())
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
            let quality =
                parameters.iter().find(|(name, _)| *name == "q").and_then(|(_, value)| value.parse().ok());
            (quality.unwrap_or(1.0), Clause { media, parameters })
        })
        .collect();
    clauses.sort_by(|one, other| other.0.total_cmp(&one.0));
    // Upstream takes what is not wanted at all for what is wanted least.
    clauses.into_iter().map(|(_, clause)| clause).collect()
}

impl Output {
    /// As upstream in two steps: what the route can produce at all, then what the kind can be written as.
    pub fn negotiate(headers: &HeaderMap, info: &RequestInfo, query: &Query) -> Result<Self, Status> {
        let json = Output::Json { pretty: wants_pretty(headers, query) };
        let Some(header) = headers.get(ACCEPT) else { return Ok(json) };
        let header = header.to_str().unwrap_or_default();
        if header.trim().is_empty() {
            return Ok(json);
        }
        let clauses = clauses(header);
        let produced =
            |clause: &Clause<'_>| clause.media == "*/*" || AVAILABLE[..WHOLE].contains(&clause.media);
        if !clauses.iter().any(produced) {
            // A collection is listed and watched by the same route.
            let listed = matches!(info.verb, "list" | "watch");
            return Err(Status::not_acceptable(&AVAILABLE[..if listed { AVAILABLE.len() } else { WHOLE }]));
        }
        let streams = info.verb == "watch";
        for clause in clauses.iter().filter(|clause| !clause.is_transformed()) {
            match clause.media {
                "application/json" | "application/*" | "*/*" => return Ok(json),
                "application/yaml" if !streams => return Ok(Output::Yaml),
                _ => {}
            }
        }
        let (whole, watches) = AVAILABLE.split_at(WHOLE);
        Err(Status::not_acceptable_types(if streams { watches } else { whole }))
    }

    /// The media type of a discovery document, which is not there in other forms.
    pub fn of_document(headers: &HeaderMap) -> Result<Self, Status> {
        Output::negotiate(headers, &RequestInfo::default(), &Query::default())
    }

    /// For an error the best that can be done will do.
    pub fn of_error(headers: &HeaderMap) -> Self {
        let header = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match clauses(header).first() {
            Some(clause) if clause.media == "application/yaml" => Output::Yaml,
            _ => Output::Json { pretty: false },
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Output::Json { .. } => "application/json",
            Output::Yaml => "application/yaml",
        }
    }
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

/// The media type of the body, without parameters, in lower case.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().unwrap_or("?");
    if value.is_empty() {
        return None;
    }
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// People at a browser or curl get indented JSON, as upstream has it.
fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(pretty) = query.boolean("pretty") {
        return pretty;
    }
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|person| agent.starts_with(person))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiate(accept: &str, verb: &'static str) -> Result<Output, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        let info = RequestInfo { verb, ..RequestInfo::default() };
        Output::negotiate(&headers, &info, &Query::default()).map_err(|status| status.code())
    }

    #[test]
    fn the_most_wanted_type_that_is_served_wins() {
        let json = Output::Json { pretty: false };
        let cases = [
            ("", "get", Ok(json)),
            ("*/*", "get", Ok(json)),
            ("application/json", "get", Ok(json)),
            ("application/yaml", "get", Ok(Output::Yaml)),
            ("application/yaml;q=0.5, application/json", "get", Ok(json)),
            ("application/vnd.kubernetes.protobuf,application/json", "list", Ok(json)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "list", Ok(json)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io", "list", Err(406)),
            ("application/vnd.kubernetes.protobuf", "get", Err(406)),
            ("application/yaml", "watch", Err(406)),
            ("text/plain", "get", Err(406)),
            ("application/json;q=0", "get", Ok(json)),
            ("application/*", "get", Err(406)),
            ("application/json;v=v9", "get", Err(406)),
        ];
        for (accept, verb, expected) in cases {
            assert_eq!(negotiate(accept, verb), expected, "{accept} {verb}");
        }
    }
}
