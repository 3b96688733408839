//! HorizontalPodAutoscalers without metrics: they keep to their bounds, and report the missing metrics.

use serde_json::Value;

use crate::deployment::{RollingLimits, rolling_rules};
use crate::history::History;
use crate::player::{PlayResult, Player};
use crate::pods::is_true;

pub const NAMESPACE: &str = "autoscaler";

pub async fn play(player: &Player) -> PlayResult {
    player.apply("autoscaler.yaml").await?;
    for (name, replicas) in [("few", 3), ("many", 4)] {
        let deployment = format!("apps/v1 deployments/{name}");
        player
            .until("a size within the bounds", &deployment, |deployment| {
                deployment["spec"]["replicas"] == replicas
                    && deployment["status"]["availableReplicas"] == replicas
            })
            .await?;
    }
    for (name, replicas) in [("few", 3), ("many", 4), ("off", 0)] {
        let place = format!("autoscaling/v2 horizontalpodautoscalers/{name}");
        let is_told = |autoscaler: &Value| {
            let conditions = autoscaler["status"]["conditions"].to_string();
            autoscaler["status"]["currentReplicas"].as_i64().unwrap_or(0) == replicas
                && conditions.contains("ScalingActive")
                && !is_true(autoscaler, "ScalingActive")
        };
        player.until("an autoscaler that says what it lacks", &place, is_told).await?;
    }
    Ok(())
}

/// The scaled Deployment follows the rules of every Deployment.
pub fn rules(history: &History<'_>, is_real: bool) -> Vec<String> {
    let each = ["few", "many", "off"].map(|name| RollingLimits { name, surge: 1, unavailable: 1 });
    each.iter().flat_map(|rule| rolling_rules(history, rule, is_real)).collect()
}
