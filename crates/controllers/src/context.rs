//! What every controller is given.

use std::sync::Arc;

use atoll_authn::authority::Authority;
use atoll_authn::service_account::Tokens;
use atoll_informer::{Clock, Events, Informers, World};
use atoll_meta::object;
use serde_json::Value;

use crate::settings::Settings;

/// How an object says whether its pods are made here or where it is placed.
pub const GRAIN: &str = "atoll.dev/grain";

#[derive(Clone)]
pub struct Context {
    pub informers: Arc<Informers>,
    pub events: Events,
    pub clock: Arc<dyn Clock>,
    pub acts: Acts,
    pub settings: Arc<Settings>,
    pub signers: Signers,
}

/// Who signs what controllers give out, and whom everybody is to trust. A controller without its signer rests.
#[derive(Clone, Default)]
pub struct Signers {
    /// Signs certificates that were asked for.
    pub authority: Option<Arc<Authority>>,
    /// Signs serving certificates of kubelets instead, if it is another one. Where anybody but the administrator may approve
    /// these it must be one that no client of the API trusts.
    pub kubelets: Option<Arc<Authority>>,
    /// Signs client certificates that are good in one workspace only instead, if it is another one.
    pub workspaces: Option<Arc<Authority>>,
    /// Signs tokens that lie in Secrets.
    pub tokens: Option<Arc<Tokens>>,
    /// The certificates of authorities that clients of the API trust, as PEM.
    pub trusted: Option<Arc<str>>,
}

/// Whose pods are made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acts {
    /// Everybody's: this is a cluster like others.
    Everywhere,
    /// Of those whose pods are placed one by one; others go to clusters whole, and their pods are made there.
    OnPodGrain,
}

impl Signers {
    /// An authority that signs certificates and whom clients trust, and who signs tokens.
    pub fn of(authority: Arc<Authority>, tokens: Arc<Tokens>) -> Signers {
        let trusted = Some(authority.certificate_pem.as_str().into());
        Signers {
            authority: Some(authority),
            kubelets: None,
            workspaces: None,
            tokens: Some(tokens),
            trusted,
        }
    }
}

impl Context {
    pub fn new(world: World, clock: Arc<dyn Clock>, acts: Acts) -> Context {
        Context::sharing(Informers::new(world), clock, acts)
    }

    /// With what others know already.
    pub fn sharing(informers: Arc<Informers>, clock: Arc<dyn Clock>, acts: Acts) -> Context {
        let events = Events::new(informers.world().clone(), clock.clone());
        Context { informers, events, clock, acts, settings: Arc::default(), signers: Signers::default() }
    }

    pub fn with_settings(self, settings: Settings) -> Context {
        Context { settings: Arc::new(settings), ..self }
    }

    pub fn with_signers(self, signers: Signers) -> Context {
        Context { signers, ..self }
    }

    pub fn world(&self) -> &World {
        self.informers.world()
    }

    /// Whether controllers that make pods, and such that look after them, are to do so for this object.
    pub fn acts_on(&self, object: &Value) -> bool {
        self.acts == Acts::Everywhere || object::annotation(object, GRAIN) == Some("pod")
    }
}
