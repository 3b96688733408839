//! Whatever stands in a query, options are read or refused.
#![no_main]

use std::sync::LazyLock;

use atoll_registry::{Catalog, Profile};
use atoll_server::fuzzing::{ListOptions, Query, WriteOptions, delete};
use libfuzzer_sys::fuzz_target;

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::new(Profile::Full));

fuzz_target!(|text: &str| {
    let query = Query::parse(text);
    for (group, version, resource) in [("", "v1", "pods"), ("apps", "v1", "deployments")] {
        let row = CATALOG.find(group, version, resource).expect("a built-in resource");
        let _ = ListOptions::parse(row, &query, false);
        let _ = ListOptions::parse(row, &query, true);
    }
    let _ = WriteOptions::parse("CreateOptions", &query, Vec::new());
    let _ = delete(&query, None);
});
