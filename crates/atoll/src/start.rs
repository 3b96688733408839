//! `atoll start`: everything wired together.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use atoll_authn::Authenticator;
use atoll_authn::authority::Authority;
use atoll_authn::service_account::{self, KeyRing, Tokens};
use atoll_authn::token_file::TokenFile;
use atoll_authz::Policies;
use atoll_client::Client;
use atoll_controllers::Signers;
use atoll_registry::bootstrap::{self, Birth};
use atoll_registry::{Catalog, Decoder, Network, Profile, Registry, SystemClock, definitions, expiry};
use atoll_server::local::Local;
use atoll_server::metrics::Metrics;
use atoll_server::trace::Tracer;
use atoll_server::{Chain, Limits, Server, listen};
use atoll_sqlite::SqliteStore;
use atoll_store::Store;
use atoll_watch::Cache;
use time::OffsetDateTime;
use tokio::signal::unix::{SignalKind, signal};

use crate::certificates::{self, Certificates};
use crate::command::{LogFormat, ProfileName, StartOptions};
use crate::encryption;

pub fn run(options: StartOptions) -> Result<(), String> {
    log_to_stderr(&options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(serve(options))
}

async fn serve(options: StartOptions) -> Result<(), String> {
    let directory = &options.data_dir;
    let admission = Chain::new(&options.enable_admission_plugins, &options.disable_admission_plugins)?;
    let sqlite =
        SqliteStore::open(directory, atoll_sqlite::Options::default()).map_err(|error| error.to_string())?;
    let sqlite = Arc::new(sqlite);
    let store =
        encryption::sealed(sqlite.clone(), directory, options.encryption_provider_config.as_deref()).await?;
    let listener =
        listen::bind(options.listen).await.map_err(|error| cannot_listen(options.listen, &error))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let advertised =
        SocketAddr::new(options.advertise_address.unwrap_or_else(|| reachable(address.ip())), address.port());

    let now = OffsetDateTime::now_utc();
    let authority = Arc::new(Authority::open(directory, now).map_err(|error| error.to_string())?);
    let certificates = Certificates {
        authority: authority.clone(),
        listening: address.ip(),
        advertised,
        kubeconfig: certificates::kubeconfig_path(directory),
        lifetime: Duration::from_secs(options.certificate_lifetime.into()),
    };
    let tls = certificates.tls(now)?;
    let profile = match options.profile {
        ProfileName::Full => Profile::Full,
        ProfileName::Minimal => Profile::Minimal,
    };
    let metrics = Metrics::new();
    let (registry, policies) =
        registry(metrics.measured(store), profile, advertised, &authority, &options).await?;
    let (authenticator, limits) = (authenticator(&options)?, limits(&options));
    let mut server = Server::new(registry, authenticator, policies, limits, advertised.to_string(), metrics);
    server.admission = admission;
    server.tracer = options.otlp_endpoint.as_deref().map(Tracer::start).transpose()?;
    let keys = KeyRing::open(directory).map_err(|error| error.to_string())?;
    let tokens = Arc::new(Tokens::new(&options.service_account_issuer, keys));
    server.tokens = Some(tokens.clone());
    let server = Arc::new(server);
    certificates.write_kubeconfig(now)?;
    let admin = certificates.kubeconfig.clone();

    tokio::spawn(certificates.keep_fresh(tls.clone(), now, OffsetDateTime::now_utc));
    tokio::spawn(replace_token_keys(server.clone(), directory.clone(), options.service_account_key_days));
    tokio::spawn(forget_the_past(server.clone(), Duration::from_secs(options.history)));
    if let Some(events) = server.registry.catalog.stored("", "events") {
        tokio::spawn(expiry::expire(server.registry.clone(), events.clone(), expiry::EVENT_TTL));
    }
    tokio::spawn(definitions::run(server.registry.clone()));
    if options.controllers {
        let local = Local::new(&server, "system:atoll-controllers");
        let signers = Signers { authority, tokens };
        tokio::spawn(atoll_controllers::run(Client::new(Arc::new(local)), signers));
    }
    let serving = tokio::spawn(listen::serve(server.clone(), listener, tls));
    println!(
        "Atoll is ready at https://{advertised}. Try: kubectl --kubeconfig {} get namespaces",
        quoted(&admin.display().to_string())
    );
    stop_signal().await?;
    tracing::info!("stopping: finishing what is under way");
    server.stop();
    serving.await.map_err(|error| error.to_string())?;
    sqlite.close().await;
    Ok(())
}

async fn registry(
    store: Arc<dyn Store>,
    profile: Profile,
    endpoint: SocketAddr,
    authority: &Authority,
    options: &StartOptions,
) -> Result<(Arc<Registry>, Arc<Policies>), String> {
    let catalog = Arc::new(Catalog::new(profile));
    let decoder = Arc::new(Decoder { catalog: catalog.clone() });
    let created = first_start(&options.data_dir)?;
    let ranges = options.service_cluster_ip_range.clone();
    let network = Network::new(ranges, options.service_node_port_range)
        .map_err(|error| format!("--service-cluster-ip-range: {error}"))?;
    let birth = Birth {
        created,
        endpoint,
        network: &network,
        authority: &authority.certificate_pem,
        belongings: options.controllers,
    };
    let layer = bootstrap::layer(&catalog, &birth);
    let limits = atoll_watch::Limits { bytes: options.history_size << 20 };
    let policies = Arc::new(Policies::new(&layer));
    let cache = Cache::open(store.as_ref(), decoder, layer, limits, vec![policies.clone()]).await;
    let cache = cache
        .map_err(|error| format!("the data in {} cannot be read: {error:?}", options.data_dir.display()))?;
    let (clock, naming) = (Arc::new(SystemClock), tokio::sync::Mutex::default());
    let registry = Registry { store, cache, catalog, clock, network, naming };
    Ok((Arc::new(registry), policies))
}

/// When this data directory was first used: the age of what every workspace is born with.
fn first_start(directory: &Path) -> Result<i64, String> {
    let path = directory.join("ca.crt");
    let made = std::fs::metadata(&path).and_then(|metadata| metadata.modified());
    let made = made.map_err(|error| format!("{}: {error}", path.display()))?;
    let since = made.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(since.as_secs().cast_signed())
}

fn authenticator(options: &StartOptions) -> Result<Authenticator, String> {
    let Some(path) = &options.token_auth_file else { return Ok(Authenticator::default()) };
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let tokens: TokenFile = text.parse().map_err(|error| format!("{}: {error}", path.display()))?;
    for remark in &tokens.remarks {
        tracing::warn!("{}: {remark}", path.display());
    }
    Ok(Authenticator { tokens })
}

fn limits(options: &StartOptions) -> Limits {
    Limits {
        request_timeout: Duration::from_secs(options.request_timeout),
        header_timeout: Duration::from_secs(options.header_timeout),
        reading: options.max_requests_inflight,
        mutating: options.max_mutating_requests_inflight,
        drain: Duration::from_secs(options.shutdown_timeout),
    }
}

/// Every now and then: old history goes from memory, then from the disk.
async fn forget_the_past(server: Arc<Server>, age: Duration) {
    let mut interval =
        tokio::time::interval((age / 5).clamp(Duration::from_secs(1), Duration::from_secs(60)));
    loop {
        interval.tick().await;
        let through = server.registry.cache.expire(age);
        if let Err(error) = server.registry.store.compact(through).await {
            tracing::warn!(?error, "old revisions could not be removed; the next try is in a minute");
        }
    }
}

/// Every now and then: keys that were replaced are taken over, and one that is old is replaced.
async fn replace_token_keys(server: Arc<Server>, directory: PathBuf, days: u32) {
    let longest = Duration::from_secs(u64::from(days) * 86_400);
    let mut interval = tokio::time::interval(Duration::from_secs(1));
    loop {
        interval.tick().await;
        let Some(tokens) = &server.tokens else { return };
        let replaced = match days > 0 && tokens.keys.age(SystemTime::now()) > longest {
            true => {
                service_account::rotate(&directory).map(|id| tracing::info!(id, "a new key signs tokens"))
            }
            false => Ok(()),
        };
        if let Err(error) = replaced.and_then(|()| tokens.keys.refresh()) {
            tracing::warn!(%error, "the keys of tokens cannot be read or replaced; those in memory are used");
        }
    }
}

async fn stop_signal() -> Result<(), String> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// A word for a shell, whatever is in it.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_alphanumeric() || "/._-+=:@%,".contains(character);
    match word.chars().all(plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// An address that a client on this machine can use.
fn reachable(listening: IpAddr) -> IpAddr {
    if listening.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { listening }
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> String {
    format!("cannot listen on {address}: {error}; choose another with --listen, or stop what uses it")
}

fn log_to_stderr(options: &StartOptions) -> Result<(), String> {
    // A bare level is about Atoll: what its libraries have to say at that level interests nobody.
    let wanted = match options.log.parse::<tracing::Level>() {
        Ok(level) => format!("warn,atoll={level}"),
        Err(_) => options.log.clone(),
    };
    let filter = tracing_subscriber::EnvFilter::try_new(&wanted)
        .map_err(|error| format!("--log {:?}: {error}", options.log))?;
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match options.log_format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}
