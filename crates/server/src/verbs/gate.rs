//! Admission of one request, as called by the registry.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use atoll_admission::{Held, Operation, Options, Request};
use atoll_authn::User;
use atoll_authz::{Attributes, Target};
use atoll_meta::{Status, object};
use atoll_registry::{Admission, Place, Row, Written};
use serde_json::Value;

use super::patch::Warnings;
use super::seal::Sealed;
use crate::Server;
use crate::chain::Call;
use crate::sync::advice;
use crate::workspace::Workspace;

pub struct Gate<'a> {
    pub server: &'a Server,
    pub row: &'a Row,
    pub subresource: &'a str,
    pub workspace: &'a Workspace,
    pub place: Place<'a>,
    /// The name in the request; empty if it is to be generated.
    pub name: &'a str,
    pub user: &'a User,
    pub options: Options<'a>,
    pub warnings: &'a Warnings,
    /// Reservations of the last validated write, such as quota.
    pub held: Mutex<Vec<Box<dyn Held>>>,
    /// The Secret to which a kubeconfig was moved for this request.
    pub sealed: Mutex<Option<Sealed>>,
    /// Whether an object without a name has a placement annotation, which is ignored.
    pub is_ignored: AtomicBool,
}

impl<'a> Gate<'a> {
    /// For a request about the object `place`.
    pub fn of(
        server: &'a Server,
        row: &'a Row,
        call: &'a Call,
        place: Place<'a>,
        options: Options<'a>,
        warnings: &'a Warnings,
    ) -> Self {
        Gate {
            server,
            row,
            subresource: &call.info.subresource,
            workspace: &call.workspace,
            place,
            name: place.name,
            user: &call.user,
            options,
            warnings,
            held: Mutex::default(),
            sealed: Mutex::default(),
            is_ignored: AtomicBool::default(),
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Vec<Box<dyn Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls admission for a connection, which writes nothing.
    pub async fn connect(&self) -> Result<(), Status> {
        self.ask(Operation::Connect, None, Phase::Validate(&Value::Null)).await
    }

    async fn ask(&self, operation: Operation, old: Option<&Value>, phase: Phase<'_>) -> Result<(), Status> {
        let registry = &*self.server.registry;
        let authorize = |verb: &str, target: Target<'_>| {
            let attributes = Attributes { user: self.user, verb, target };
            self.server.here(self.workspace).is_ok_and(|here| here.authorize(&attributes).is_ok())
        };
        let warn = |text: String| self.warnings.also(text);
        // A generated name counts once it exists.
        let name = match &phase {
            Phase::Validate(object) if self.name.is_empty() => object::name(object),
            _ => self.name,
        };
        let request = Request {
            operation,
            row: self.row,
            subresource: self.subresource,
            workspace: self.place.workspace,
            step: self.workspace.step(),
            namespace: self.place.namespace,
            name,
            user: self.user,
            old,
            options: self.options,
            snapshot: &registry.snapshot(),
            registry,
            authorize: &authorize,
            warn: &warn,
        };
        match phase {
            Phase::Mutate(new) => self.server.admission.mutate(&request, new).await,
            Phase::Validate(object) => {
                let taken = self.server.admission.validate(&request, object).await?;
                *self.held() = taken;
                Ok(())
            }
        }
    }
}

enum Phase<'a> {
    Mutate(&'a mut Value),
    Validate(&'a Value),
}

fn of_write(old: Option<&Value>) -> Operation {
    if old.is_some() { Operation::Update } else { Operation::Create }
}

impl Admission for Gate<'_> {
    fn placement_ignored(&self, new: &Value) {
        // The command in the warning needs a name.
        match object::name(new).is_empty() {
            true => self.is_ignored.store(true, Ordering::Relaxed),
            false => self.warnings.about_request(advice::ignored(self.server, self.row, &self.place, new)),
        }
    }

    async fn mutate(&self, new: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        self.seal(new, old).await?;
        if old.is_none() {
            self.workspace.check_create(&self.row.group, &self.row.resource, new)?;
        }
        self.ask(of_write(old), old, Phase::Mutate(new)).await?;
        self.check_escalation(new, old)
    }

    async fn validate(&self, new: Option<&Value>, old: Option<&Value>) -> Result<(), Status> {
        match (new, old) {
            (Some(new), old) => {
                // A scale is validated as the object that it belongs to.
                let part = if self.subresource == "scale" { "" } else { self.subresource };
                self.warnings.remark(self.row.remarks(part, new, old));
                if self.is_ignored.load(Ordering::Relaxed) {
                    self.warnings.also(advice::ignored(self.server, self.row, &self.place, new));
                }
                if old.is_none() && part.is_empty() {
                    let unplaced = advice::unplaced(self.server, self.row, &self.place, new);
                    unplaced.into_iter().for_each(|text| self.warnings.also(text));
                }
                self.ask(of_write(old), old, Phase::Validate(new)).await
            }
            (None, Some(old)) => {
                let paused = advice::paused(self.server, self.workspace, old);
                paused.into_iter().for_each(|text| self.warnings.also(text));
                self.ask(Operation::Delete, Some(old), Phase::Validate(old)).await
            }
            (None, None) => Ok(()),
        }
    }

    async fn ended(&self, written: Written) {
        let held = std::mem::take(&mut *self.held());
        for held in held {
            held.finish(&self.server.registry, written).await;
        }
    }
}
