//! Validation of objects. Slow checks run on other threads.

use std::sync::Arc;

use atoll_meta::{Deadline, FieldError, Status};
use atoll_store::Key;
use atoll_validation::{Checks, slow_checks_for};
use serde_json::Value;

use crate::Registry;
use crate::blocking::{
    self, CHECK_TIMEOUT, INLINE_TIMEOUT, Stage, run_blocking, run_blocking_check, run_until_deadline,
};
use crate::definitions::Definition;
use crate::row::{ObjectRef, Row};
use crate::usage::{CompileReservation, Reservation};

/// Reservations that are held during a write.
pub(crate) type Reservations<'r> = (Option<Reservation<'r>>, Option<CompileReservation<'r>>);

impl Registry {
    /// Reserves the usage of a write and, for a definition, the memory of the compiled definition.
    pub(crate) fn reserve(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        key: &Key,
        before: Option<usize>,
        size: usize,
        definition: Option<&Definition>,
    ) -> Result<Reservations<'_>, Status> {
        let reservation = self.usage.reserve(row, object_ref, key, before, size)?;
        let compiled = definition
            .map(|definition| self.usage.reserve_compiled(row, object_ref, definition))
            .transpose()?;
        Ok((reservation, compiled.flatten()))
    }

    /// All validation errors of a new object of about `size` bytes.
    pub(crate) async fn validate_new(
        &self,
        row: &Row,
        workspace: &str,
        object: Value,
        size: usize,
    ) -> Result<(Value, Vec<FieldError>), Status> {
        let (strategy, namespaced, checks) = (row.strategy, row.namespaced, row.checks);
        if row.strategy.slow_validation {
            let limited = slow_checks_for(&row.group, &row.resource);
            return run_blocking(&self.tenant_of(workspace), move || {
                let Some(limited) = limited else {
                    let errors = strategy.check_create(&object, namespaced, checks);
                    return (object, errors);
                };
                let mut errors = strategy.check_create(&object, namespaced, &Checks::NONE);
                let check = |deadline: &Deadline<'_>| (limited.create)(&object, deadline);
                errors.extend(run_until_deadline(CHECK_TIMEOUT, check));
                (object, errors)
            })
            .await;
        }
        let check = || {
            let errors = strategy.check_create(&object, namespaced, checks);
            row.check_schema(&object, None, errors)
        };
        let errors = self.run_sized(workspace, size, Stage::Started, check).await?;
        let Some(custom) = &row.custom else { return Ok((object, errors)) };
        let (kind, api_version) = (row.kind.clone(), row.api_version());
        if !custom.version.schema.is_slow(&object) {
            let checked = blocking::run_with_deadline(INLINE_TIMEOUT, |deadline| {
                custom.check_create(&kind, &api_version, &object, errors.clone(), deadline)
            });
            if let Some(errors) = checked {
                return Ok((object, errors));
            }
        }
        let custom = custom.clone();
        run_blocking_check(&self.tenant_of(workspace), move |deadline| {
            let errors = custom.check_create(&kind, &api_version, &object, errors, deadline);
            (object, errors)
        })
        .await
    }

    /// All validation errors of a changed object of about `size` bytes, or of one of its subresources.
    pub(crate) async fn validate_update(
        &self,
        row: &Row,
        workspace: &str,
        subresource: &str,
        new: Value,
        old: &Arc<Value>,
        size: usize,
    ) -> Result<(Value, Vec<FieldError>), Status> {
        let (strategy, namespaced, checks) = (row.strategy, row.namespaced, row.checks);
        if row.strategy.slow_validation {
            let (old, subresource) = (old.clone(), subresource.to_string());
            let limited = slow_checks_for(&row.group, &row.resource).filter(|_| subresource.is_empty());
            return run_blocking(&self.tenant_of(workspace), move || {
                let Some(limited) = limited else {
                    let errors = strategy.check_update(&subresource, &new, &old, namespaced, checks);
                    return (new, errors);
                };
                let mut errors = strategy.check_update("", &new, &old, namespaced, &Checks::NONE);
                let check = |deadline: &Deadline<'_>| (limited.update)(&new, &old, deadline);
                errors.extend(run_until_deadline(CHECK_TIMEOUT, check));
                (new, errors)
            })
            .await;
        }
        let check = || {
            let errors = strategy.check_update(subresource, &new, old, namespaced, checks);
            match subresource {
                "" => row.check_schema(&new, Some(old), errors),
                _ => errors,
            }
        };
        let errors = self.run_sized(workspace, size, Stage::Started, check).await?;
        let Some(custom) = &row.custom else { return Ok((new, errors)) };
        let (kind, api_version) = (row.kind.clone(), row.api_version());
        if !custom.version.schema.is_slow(&new) {
            let checked = blocking::run_with_deadline(INLINE_TIMEOUT, |deadline| {
                let target = (kind.as_str(), api_version.as_str(), subresource);
                custom.check_update(target, &new, old, errors.clone(), deadline)
            });
            if let Some(errors) = checked {
                return Ok((new, errors));
            }
        }
        let (custom, old, subresource) = (custom.clone(), old.clone(), subresource.to_string());
        run_blocking_check(&self.tenant_of(workspace), move |deadline| {
            let target = (kind.as_str(), api_version.as_str(), subresource.as_str());
            let errors = custom.check_update(target, &new, &old, errors, deadline);
            (new, errors)
        })
        .await
    }
}
