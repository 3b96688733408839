//! Jobs and CronJobs.

// upstream: pkg/apis/batch/validation/validation.go

mod cron_job;
mod indexes;
mod job;
mod job_status;
mod policy;
mod schedule;

pub(crate) use cron_job::CHECKS as CRON_JOBS;
pub(crate) use job::CHECKS as JOBS;

#[cfg(test)]
mod tests;
