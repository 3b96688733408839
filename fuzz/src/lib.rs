//! Properties that parsers must have for any input.
//!
//! ```text
//!   seeds/NAME/* ──┬─► Target::run ──► None: rejected · Some: accepted, all properties hold · panic: a failure
//!                  │       ▲
//!   cargo test ────┘       └── fuzz_targets/parser.rs (libFuzzer) ◄── cargo xtask fuzz: seeds, dictionaries, corpus
//! ```
//!
//! Targets are plain functions in an ordinary crate, which is compiled, linted and run over all seeds with
//! the rest of the workspace. Only the program that searches for new inputs needs a nightly toolchain.
//!
//! A new parser gets a function in the file of its crate, a row in [`TARGETS`] and at least one seed that it
//! accepts.

#![allow(clippy::expect_used, reason = "a panic is how a target reports a failure")]

mod authn;
mod cel;
mod client;
mod controllers;
mod crd;
mod encryption;
mod fleet;
mod merge;
mod meta;
mod negotiation;
mod objects;
mod registry;
mod server;
mod sim;
mod streams;

/// `Some` if the parser accepted an input, `None` if it rejected it.
pub type Accepted = Option<()>;

/// A parser and its properties.
#[derive(Debug)]
pub struct Target {
    pub name: &'static str,
    /// Runs the parser. Panics if a property does not hold.
    pub run: fn(&[u8]) -> Accepted,
}

/// All targets, sorted by name.
pub static TARGETS: &[Target] = &[
    Target { name: "accept", run: server::accept },
    Target { name: "apply", run: merge::apply },
    Target { name: "body", run: server::body },
    Target { name: "cel", run: cel::expression },
    Target { name: "cel_text", run: cel::text },
    Target { name: "certificate", run: authn::certificate },
    Target { name: "certificate_request", run: authn::certificate_request },
    Target { name: "claims", run: authn::claims },
    Target { name: "continue_token", run: server::continue_token },
    Target { name: "controller_list", run: controllers::list },
    Target { name: "cron", run: controllers::cron },
    Target { name: "custom_resource", run: crd::custom_resource },
    Target { name: "definitions", run: registry::definitions },
    Target { name: "duration", run: meta::duration },
    Target { name: "encryption_configuration", run: encryption::configuration },
    Target { name: "fault", run: sim::fault },
    Target { name: "field_selector", run: meta::field_selector },
    Target { name: "handshake", run: streams::handshake },
    Target { name: "identity_headers", run: server::identity_headers },
    Target { name: "imported_documents", run: negotiation::documents },
    Target { name: "imported_schemas", run: negotiation::schemas },
    Target { name: "indexes", run: controllers::indexes },
    Target { name: "intent", run: fleet::intent },
    Target { name: "json", run: meta::json },
    Target { name: "json_patch", run: merge::json_patch },
    Target { name: "json_path", run: crd::json_path },
    Target { name: "kubeconfig", run: client::kubeconfig },
    Target { name: "kubelet", run: sim::kubelet },
    Target { name: "label_selector", run: meta::label_selector },
    Target { name: "locator", run: fleet::locator },
    Target { name: "managed_fields", run: merge::managed_fields },
    Target { name: "object", run: objects::object },
    Target { name: "outcome", run: streams::outcome },
    Target { name: "overrides", run: fleet::overrides },
    Target { name: "page", run: server::page },
    Target { name: "patch", run: server::patch },
    Target { name: "path", run: server::path },
    Target { name: "placement", run: fleet::placement },
    Target { name: "program", run: sim::program },
    Target { name: "protobuf", run: objects::protobuf },
    Target { name: "proxy", run: server::proxy },
    Target { name: "quantity", run: meta::quantity },
    Target { name: "query", run: server::query },
    Target { name: "ranges", run: objects::ranges },
    Target { name: "regular_expression", run: cel::regular_expression },
    Target { name: "sealed", run: encryption::sealed },
    Target { name: "settings", run: client::settings },
    Target { name: "shaped", run: fleet::shaped },
    Target { name: "snapshot", run: server::snapshot },
    Target { name: "spdy", run: streams::spdy },
    Target { name: "spdy_headers", run: streams::spdy_headers },
    Target { name: "status", run: meta::status },
    Target { name: "strategic_merge", run: merge::strategic_merge },
    Target { name: "sync_line", run: fleet::sync_line },
    Target { name: "sync_report", run: fleet::sync_report },
    Target { name: "terminal_size", run: streams::terminal_size },
    Target { name: "time", run: meta::time },
    Target { name: "token", run: authn::token },
    Target { name: "token_file", run: authn::token_file },
    Target { name: "token_in_kubeconfig", run: client::token_in_kubeconfig },
    Target { name: "watch_event", run: client::watch_event },
    Target { name: "websocket", run: streams::websocket },
    Target { name: "yaml", run: server::yaml },
    Target { name: "zone", run: controllers::zone },
];

impl Target {
    pub fn named(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Returns the row that the first line of an input names, and the rest of the input. A line that names no row
/// selects one by its hash, because random text is rarely a name.
fn chosen<'r, 'b, T>(rows: &'r [T], name: fn(&T) -> &str, bytes: &'b [u8]) -> Option<(&'r T, &'b [u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
    let number = || line.iter().fold(0, |sum: usize, byte| sum.wrapping_mul(31) + usize::from(*byte));
    let found = rows.iter().find(|row| name(row).as_bytes() == line);
    Some((found.or_else(|| rows.get(number() % rows.len()))?, rest))
}

/// Splits an input into `N` lines, which stand for several texts. The last one has the rest of the input.
fn lines<const N: usize>(bytes: &[u8]) -> Option<[&str; N]> {
    let lines: Vec<&str> = text(bytes)?.splitn(N, '\n').collect();
    lines.try_into().ok()
}

#[cfg(test)]
mod tests;
