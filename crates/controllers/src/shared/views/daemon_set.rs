//! DaemonSets.

use serde_json::Value;

super::workload_view! {
    /// A DaemonSet.
    DaemonSetView
}

impl<'a> DaemonSetView<'a> {
    /// Whether outdated pods are replaced by the controller, instead of when they are deleted.
    pub fn is_rolling(self) -> bool {
        self.spec()["updateStrategy"]["type"] == "RollingUpdate"
    }

    /// Returns the limits of a rolling update; `None` if there are none.
    pub fn rolling_update(self) -> Option<RollingUpdate<'a>> {
        let rolling = &self.spec()["updateStrategy"]["rollingUpdate"];
        (self.is_rolling() && !rolling.is_null()).then(|| RollingUpdate {
            max_surge: &rolling["maxSurge"],
            max_unavailable: &rolling["maxUnavailable"],
        })
    }
}

/// Limits of a rolling update: numbers or percentages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RollingUpdate<'a> {
    /// How many nodes may have a second pod.
    pub max_surge: &'a Value,
    /// How many pods may be unavailable.
    pub max_unavailable: &'a Value,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn update_strategies_are_read() {
        let (one, none) = (json!(1), Value::Null);
        let limits = RollingUpdate { max_surge: &none, max_unavailable: &one };
        for (strategy, is_rolling, expected) in [
            (json!(null), false, None),
            (json!({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 1}}), false, None),
            (json!({"type": "RollingUpdate"}), true, None),
            (json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}), true, Some(limits)),
        ] {
            let object = json!({"spec": {"updateStrategy": strategy}});
            let view = DaemonSetView::of(&object);
            assert_eq!((view.is_rolling(), view.rolling_update()), (is_rolling, expected), "{object}");
        }
    }
}
