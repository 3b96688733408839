//! The Accept header: its clauses, and the choice among them.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go
// upstream: github.com/munnerz/goautoneg/autoneg.go

use super::{AVAILABLE, Endpoint, Form, Include, Media, Meta, WHOLE};

/// Available media types, in the order of preference for clients without one.
const SERVED: [Media; WHOLE] = [Media::JSON, Media::Yaml, Media::Protobuf];

/// The group of tables and partial metadata.
const META_GROUP: &str = "meta.k8s.io";

/// One clause of an Accept header.
pub struct Clause<'a> {
    pub media: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';');
        let media = parts.next().unwrap_or_default().trim_matches(' ');
        let media = if media == "*" { "*/*" } else { media };
        // Neither `json` nor `a/b/c` is a media type.
        if media.split('/').count() != 2 || media.ends_with('/') {
            return None;
        }
        let mut clause = Clause { media, quality: 1.0, parameters: Vec::new() };
        for part in parts {
            let Some((name, value)) = part.split_once('=').filter(|(_, value)| !value.is_empty()) else {
                continue;
            };
            if value.contains('=') {
                continue;
            }
            match name.trim_matches(' ') {
                "q" => clause.quality = value.parse().unwrap_or(0.0),
                name => clause.parameters.push((name, value.trim_matches(' '))),
            }
        }
        Some(clause)
    }

    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// Whether the clause asks for a representation other than the object itself.
    pub fn is_transformed(&self) -> bool {
        ["as", "g", "v"].iter().any(|name| self.parameter(name).is_some())
    }

    pub(super) fn is_anything(&self) -> bool {
        self.media == "*/*"
    }

    /// Whether upstream orders this clause before another. This is not a total order.
    fn precedes(&self, other: &Clause<'_>) -> bool {
        let parts = |clause: &Clause<'_>| {
            let (kind, subtype) = clause.media.split_once('/').unwrap_or_default();
            (kind == "*", subtype == "*")
        };
        let ((kind, subtype), (other_kind, other_subtype)) = (parts(self), parts(other));
        self.quality > other.quality || (!kind && other_kind) || (!subtype && other_subtype)
    }

    /// Returns the media type for this clause where any form is available.
    pub fn first_served(&self) -> Option<Media> {
        SERVED.into_iter().zip(AVAILABLE).find(|(_, name)| self.matches(name)).map(|(media, _)| media)
    }

    fn matches(&self, media: &str) -> bool {
        self.is_anything() || self.media == "application/*" || self.media == media
    }

    /// Returns the form that this clause asks for in `media`, `None` if it is not available.
    fn form(&self, media: Media, endpoint: Endpoint, include: &dyn Fn() -> Include) -> Option<Form> {
        let given = |name: &str| self.parameter(name).filter(|value| !value.is_empty());
        if given("stream").is_some_and(|stream| stream != "watch" || media == Media::Yaml) {
            return None;
        }
        let Endpoint::Resource { typed, tables } = endpoint else {
            return (!self.is_transformed() && given("sv").is_none()).then_some(Form::Whole);
        };
        if given("sv").is_some_and(|version| version != "v1") {
            return None;
        }
        if !self.is_transformed() {
            return (typed || media != Media::Protobuf).then_some(Form::Whole);
        }
        let version = match (self.parameter("g")?, self.parameter("v")?) {
            (META_GROUP, "v1") => Meta::V1,
            (META_GROUP, "v1beta1") => Meta::V1beta1,
            _ => return None,
        };
        match self.parameter("as")? {
            "PartialObjectMetadata" => Some(Form::Metadata(version)),
            "PartialObjectMetadataList" => Some(Form::MetadataList(version)),
            // Tables have no protobuf message.
            "Table" if tables && media != Media::Protobuf => Some(Form::Table(version, include())),
            _ => None,
        }
    }
}

/// Parses the clauses of the Accept header, in order of preference. A quality of 0 means least preferred.
pub fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = header.split(',').filter_map(Clause::parse).collect();
    for end in 1..clauses.len() {
        let mut place = end;
        while place > 0 && clauses[place].precedes(&clauses[place - 1]) {
            clauses.swap(place, place - 1);
            place -= 1;
        }
    }
    clauses
}

/// Returns media type and form of the first clause that can be satisfied.
pub(super) fn choose(
    clauses: &[Clause<'_>],
    endpoint: Endpoint,
    include: &dyn Fn() -> Include,
) -> Option<(Media, Form)> {
    clauses.iter().find_map(|clause| {
        let served = SERVED.into_iter().zip(AVAILABLE).filter(|(_, name)| clause.matches(name));
        let mut chosen =
            served.filter_map(|(media, _)| Some((media, clause.form(media, endpoint, include)?)));
        let pretty = clause.parameter("pretty") == Some("1");
        chosen.next().map(|(media, form)| (media.indented(pretty), form))
    })
}

/// Returns the media type of an error.
pub(super) fn refusal(clauses: &[Clause<'_>], pretty: bool) -> Media {
    let chosen = choose(clauses, Endpoint::Plain, &|| Include::None);
    chosen.map_or(Media::Json { pretty: true }, |(media, _)| media.indented(pretty))
}
