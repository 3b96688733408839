//! No path leads out of what it names: either its parts have no slashes and no dots that climb, or it is refused.
#![no_main]

use atoll_server::RequestInfo;
use atoll_server::fuzzing::Query;
use http::Method;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let query = Query::parse(query);
    for method in [Method::GET, Method::POST, Method::DELETE, Method::OPTIONS] {
        let Ok(info) = RequestInfo::parse(&method, path, &query) else { continue };
        let parts =
            [&info.group, &info.version, &info.resource, &info.namespace, &info.name, &info.subresource];
        for part in parts {
            let climbs = part.contains('/') || part == "." || part == "..";
            assert!(!climbs || info.is_malformed, "{part:?}");
        }
        assert!(info.path.starts_with('/'));
        assert!(info.is_resource || info.resource.is_empty());
        let _ = (info.target(), info.api_version(), info.is_long_running());
    }
});
