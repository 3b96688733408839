//! What every controller is given.

use std::sync::Arc;

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
}

/// Whose pods are made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acts {
    /// Everybody's: this is a cluster like others.
    Everywhere,
    /// Of those whose pods are placed one by one; others go to clusters whole, and their pods are made there.
    OnPodGrain,
}

impl Context {
    pub fn new(world: World, clock: Arc<dyn Clock>, acts: Acts) -> Context {
        Context::sharing(Informers::new(world), clock, acts)
    }

    /// With what others know already.
    pub fn sharing(informers: Arc<Informers>, clock: Arc<dyn Clock>, acts: Acts) -> Context {
        let events = Events::new(informers.world().clone(), clock.clone());
        Context { informers, events, clock, acts, settings: Arc::default() }
    }

    pub fn with_settings(self, settings: Settings) -> Context {
        Context { settings: Arc::new(settings), ..self }
    }

    pub fn world(&self) -> &World {
        self.informers.world()
    }

    /// Whether controllers that make pods, and such that look after them, are to do so for this object.
    pub fn acts_on(&self, object: &Value) -> bool {
        self.acts == Acts::Everywhere || object::annotation(object, GRAIN) == Some("pod")
    }
}
