//! A CronJob: it creates a Job at each scheduled time, never two at once, and old Jobs are deleted.
//!
//! The test does not wait for a full minute: the scheduled times are days shortly before today, and the
//! status says that it was last scheduled before them.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use atoll_meta::{object, time};
use serde_json::{Value, json};

use crate::history::History;
use crate::player::{PlayResult, Player, items};
use crate::pods::is_true;

pub const NAMESPACE: &str = "cron-job";
const TICK: &str = "batch/v1 cronjobs/tick";
const DAY: i64 = 86_400;

/// Returns midnight of a number of days ago, the same for all clusters.
fn midnight(days_ago: i64) -> i64 {
    static TODAY: OnceLock<i64> = OnceLock::new();
    let today = TODAY.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        i64::try_from(now).unwrap() / DAY
    });
    (today - days_ago) * DAY
}

pub async fn play(player: &Player) -> PlayResult {
    player.apply("cron-job.yaml").await?;
    let last = json!({"status": {"lastScheduleTime": time::format(midnight(4))}});
    player.merge(&format!("{TICK}/status"), last).await?;
    for days_ago in [3, 2, 1] {
        let (_, month, day) = time::date_of(midnight(days_ago) / DAY);
        // A new schedule is effective when the CronJob is reconciled next, which the second write causes.
        let schedule = format!("0 0 {day} {month} *");
        player.merge(TICK, json!({"spec": {"schedule": schedule, "suspend": true}})).await?;
        player.merge(TICK, json!({"spec": {"suspend": false}})).await?;
        let name = format!("tick-{}", midnight(days_ago) / 60);
        player.until("its Job", &format!("batch/v1 jobs/{name}"), |job| is_true(job, "Complete")).await?;
        let is_recorded = |tick: &Value| {
            tick["status"]["lastScheduleTime"] == time::format(midnight(days_ago))
                && tick["status"]["lastSuccessfulTime"].is_string()
                && tick["status"].get("active").is_none()
        };
        player.until("the end of its Job", TICK, is_recorded).await?;
    }
    player.create_job("manual", "tick").await?;
    player.until("the manual Job", "batch/v1 jobs/manual", |job| is_true(job, "Complete")).await?;
    let left = |list: &Value| items(list).count() == 2;
    player.until("the last Job and the manual one", "batch/v1 jobs", left).await.map(drop)
}

/// `concurrencyPolicy: Forbid` allows one active Job.
pub fn rules(history: &History<'_>, _: bool) -> Vec<String> {
    history.check_steps(|step| {
        let own = |job: &&Value| object::name(job).starts_with("tick-");
        let is_over = |job: &Value| is_true(job, "Complete") || is_true(job, "Failed");
        let active: Vec<&str> =
            step.state.all("jobs").filter(own).filter(|job| !is_over(job)).map(object::name).collect();
        (active.len() > 1).then(|| format!("{active:?} were active at once"))
    })
}
