//! Admission of one request, as called by the registry.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use atoll_admission::{AdmissionOptions, Operation, Request, Reservation};
use atoll_authn::User;
use atoll_authz::{Attributes, Target};
use atoll_meta::{Status, object};
use atoll_registry::{Admission, ObjectRef, Row, Stage, WriteOutcome};
use serde_json::Value;

use super::patch::Warnings;
use super::sealing::Sealed;
use crate::Server;
use crate::chain::Call;
use crate::sync::warnings;
use crate::workspace::Workspace;

pub struct RequestAdmission<'a> {
    pub server: &'a Server,
    pub row: &'a Row,
    pub subresource: &'a str,
    pub workspace: &'a Workspace,
    pub object_ref: ObjectRef<'a>,
    /// The name in the request; empty if it is to be generated.
    pub name: &'a str,
    pub user: &'a User,
    pub options: AdmissionOptions<'a>,
    pub warnings: &'a Warnings,
    /// Reservations of the last validated write, such as quota.
    pub reservations: Mutex<Vec<Box<dyn Reservation>>>,
    /// The Secrets to which sealed fields were moved for this request.
    pub sealed: Mutex<Vec<Sealed>>,
    /// Whether an object without a name has a placement annotation, which is ignored.
    pub is_placement_ignored: AtomicBool,
}

impl<'a> RequestAdmission<'a> {
    /// For a request about the object `place`.
    pub fn new(
        server: &'a Server,
        row: &'a Row,
        call: &'a Call,
        object_ref: ObjectRef<'a>,
        options: AdmissionOptions<'a>,
        warnings: &'a Warnings,
    ) -> Self {
        RequestAdmission {
            server,
            row,
            subresource: &call.info.subresource,
            workspace: &call.workspace,
            object_ref,
            name: object_ref.name,
            user: &call.user,
            options,
            warnings,
            reservations: Mutex::default(),
            sealed: Mutex::default(),
            is_placement_ignored: AtomicBool::default(),
        }
    }

    fn reservations(&self) -> std::sync::MutexGuard<'_, Vec<Box<dyn Reservation>>> {
        self.reservations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls admission for a connection, which writes nothing.
    pub async fn connect(&self) -> Result<(), Status> {
        self.run_plugins(Operation::Connect, None, Phase::Validate(&Value::Null)).await
    }

    async fn run_plugins(
        &self,
        operation: Operation,
        old: Option<&Value>,
        phase: Phase<'_>,
    ) -> Result<(), Status> {
        let registry = &*self.server.registry;
        let authorize = |verb: &str, target: Target<'_>| {
            let attributes = Attributes { user: self.user, verb, target };
            self.server.is_allowed(self.workspace, &attributes)
        };
        let authorize_above = |levels: usize, verb: &str, target: Target<'_>| {
            let attributes = Attributes { user: self.user, verb, target };
            self.server.is_allowed_above(self.workspace, levels, &attributes)
        };
        let warn = |text: String| self.warnings.add(text);
        // A generated name counts once it exists.
        let name = match &phase {
            Phase::Validate(object) if self.name.is_empty() => object::name(object),
            _ => self.name,
        };
        let request = Request {
            operation,
            row: self.row,
            subresource: self.subresource,
            workspace: self.object_ref.workspace,
            step: self.workspace.step(),
            namespace: self.object_ref.namespace,
            name,
            user: self.user,
            old,
            options: self.options,
            snapshot: &registry.snapshot(),
            registry,
            authorize: &authorize,
            authorize_above: &authorize_above,
            warn: &warn,
        };
        match phase {
            Phase::Mutate(new) => self.server.admission.mutate(&request, new).await,
            Phase::Validate(object) => {
                let reserved = self.server.admission.validate(&request, object).await?;
                *self.reservations() = reserved;
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

impl Admission for RequestAdmission<'_> {
    fn placement_ignored(&self, new: &Value) {
        // The command in the warning needs a name.
        match object::name(new).is_empty() {
            true => self.is_placement_ignored.store(true, Ordering::Relaxed),
            false => self.warnings.add_request_warning(warnings::ignored(
                self.server,
                self.row,
                &self.object_ref,
                new,
            )),
        }
    }

    fn annotation_ignored(&self, key: &str) {
        self.warnings
            .add_request_warning(format!("metadata.annotations[{key}] is ignored: only the server sets it"));
    }

    async fn mutate(&self, new: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        self.mutate_by_dialects(new, old).await?;
        if old.is_none() {
            self.workspace.check_create(&self.row.group, &self.row.resource, new)?;
        }
        self.run_plugins(of_write(old), old, Phase::Mutate(new)).await?;
        self.check_escalation(new, old).await
    }

    async fn validate(&self, new: Option<&Value>, old: Option<&Value>, size: usize) -> Result<(), Status> {
        match (new, old) {
            (Some(new), old) => {
                // A scale is validated as the object that it belongs to.
                let part = if self.subresource == "scale" { "" } else { self.subresource };
                let (registry, workspace) = (&self.server.registry, self.object_ref.workspace);
                let warnings = || self.row.write_warnings(part, new, old);
                let warnings = registry.run_sized(workspace, size, Stage::Started, warnings).await?;
                self.warnings.set_object_warnings(warnings);
                if self.is_placement_ignored.load(Ordering::Relaxed) {
                    self.warnings.add(warnings::ignored(self.server, self.row, &self.object_ref, new));
                }
                if old.is_none() && part.is_empty() {
                    let unplaced = || warnings::unplaced(self.server, self.row, &self.object_ref, new);
                    let unplaced = registry.run_sized(workspace, size, Stage::Started, unplaced).await?;
                    unplaced.into_iter().for_each(|text| self.warnings.add(text));
                }
                if part.is_empty() {
                    warnings::invalid_api(new, old).into_iter().for_each(|text| self.warnings.add(text));
                    let not_followed =
                        || warnings::not_followed(self.server, self.row, &self.object_ref, new, old);
                    let not_followed =
                        registry.run_sized(workspace, size, Stage::Started, not_followed).await?;
                    not_followed.into_iter().for_each(|text| self.warnings.add(text));
                }
                self.validate_by_dialects(new, old)?;
                self.run_plugins(of_write(old), old, Phase::Validate(new)).await
            }
            (None, Some(old)) => {
                let paused = warnings::paused(self.server, self.workspace, old);
                paused.into_iter().for_each(|text| self.warnings.add(text));
                self.run_plugins(Operation::Delete, Some(old), Phase::Validate(old)).await
            }
            (None, None) => Ok(()),
        }
    }

    async fn write_finished(&self, written: WriteOutcome) {
        let reservations = std::mem::take(&mut *self.reservations());
        for reservation in reservations {
            reservation.finish(&self.server.registry, written).await;
        }
    }
}
