//! Explanations as tables.

use atoll_fleet::explanation::{ClusterExplanation, Explanation};
use atoll_fleet::placement::{PlacementDecision, Share};
use atoll_meta::time;
use serde_json::Value;

use crate::output::table;
use crate::place::shares;
use crate::style::Paint;

/// Shows a placement with its explanation. Times are shown as ages at the time `now`, in seconds.
pub fn render(title: &str, placement: &Value, explanation: &Explanation, now: i64, paint: Paint) -> String {
    let mut text = summary(title, placement, explanation);
    if !explanation.note.is_empty() {
        text.push_str(&format!("Note: {}.\n", explanation.note.trim_end_matches('.')));
    }
    for policy in explanation.policies.iter().filter(|policy| !policy.applies) {
        text.push_str(&format!("{} does not apply: {}.\n", policy.policy, policy.reason));
    }
    if !explanation.clusters.is_empty() {
        let headers = ["CLUSTER", "CHOSEN", "WANTED", "READY", "SINCE", "FITS", "WHY NOT"];
        let rows: Vec<Vec<String>> =
            explanation.clusters.iter().map(|cluster| cluster_row(cluster, now)).collect();
        text.push_str(&section(&headers, &rows, paint));
    }
    let scores: Vec<Vec<String>> = explanation.clusters.iter().flat_map(score_rows).collect();
    if !scores.is_empty() {
        text.push_str(&section(&["CLUSTER", "SCORE", "VALUE", "MEANING"], &scores, paint));
        text.push_str(
            "The scores were computed for this answer. More is better, and the first counts most.\n",
        );
    }
    let decisions: Vec<PlacementDecision> =
        serde_json::from_value(placement["spec"]["decisions"].clone()).unwrap_or_default();
    if !decisions.is_empty() {
        let row = |decision: &PlacementDecision| {
            vec![age(&decision.time, now), decision.by.clone(), decision.reason.clone()]
        };
        let rows: Vec<Vec<String>> = decisions.iter().rev().map(row).collect();
        text.push_str(&section(&["DECIDED", "BY", "DECISION"], &rows, paint));
    }
    text
}

fn summary(title: &str, placement: &Value, explanation: &Explanation) -> String {
    let read = |field: &Value| serde_json::from_value::<Vec<Share>>(field.clone()).unwrap_or_default();
    let placed = read(&placement["spec"]["clusters"]);
    let mut text = format!("{title} is placed on {}", shares::format_list(&placed));
    match placement["spec"]["by"].as_str().filter(|by| !by.is_empty()) {
        Some(by) => text.push_str(&format!(" by {by}")),
        None if !explanation.by.is_empty() => text.push_str(&format!("; {} decides", explanation.by)),
        None => {}
    }
    let target = read(&placement["spec"]["target"]);
    if !target.is_empty() {
        text.push_str(&shares::destination(&placed, &target));
    }
    let blocked = placement["spec"]["blocked"].as_str().filter(|blocked| !blocked.is_empty());
    if let Some(blocked) = blocked {
        text.push_str(&format!("; it is to leave a cluster and stays ({blocked})"));
    }
    match (explanation.unplaced, explanation.replicas) {
        (0, _) => {}
        (unplaced, Some(replicas)) if blocked.is_some() => {
            text.push_str(&format!("; {unplaced} of {replicas} replicas have no other place"));
        }
        (unplaced, Some(replicas)) => {
            text.push_str(&format!("; {unplaced} of {replicas} replicas have no place"));
        }
        (_, None) => text.push_str("; no cluster accepts the object"),
    }
    text + ".\n"
}

fn section(headers: &[&str], rows: &[Vec<String>], paint: Paint) -> String {
    let headers: Vec<String> = headers.iter().map(|header| header.to_string()).collect();
    format!("\n{}", table(&headers, rows, paint))
}

fn cluster_row(cluster: &ClusterExplanation, now: i64) -> Vec<String> {
    let number = |number: Option<i64>| number.map_or_else(|| "-".to_string(), |number| number.to_string());
    let wanted = match cluster.current {
        Some(current) => format!("{} (has {current})", cluster.replicas.unwrap_or(0)),
        None => number(cluster.replicas),
    };
    vec![
        cluster.name.clone(),
        if cluster.chosen { "yes" } else { "no" }.to_string(),
        wanted,
        number(cluster.ready),
        age(&cluster.since, now),
        number(cluster.fits),
        cluster.reason.clone(),
    ]
}

fn score_rows(cluster: &ClusterExplanation) -> impl Iterator<Item = Vec<String>> {
    let rows = cluster.scores.iter();
    rows.map(|score| {
        vec![cluster.name.clone(), score.name.clone(), score.value.to_string(), score.reason.clone()]
    })
}

fn age(text: &str, now: i64) -> String {
    let at = time::parse(text).ok();
    at.map_or_else(|| "-".to_string(), |at| time::human_duration((now - at.seconds).max(0)))
}

#[cfg(test)]
mod tests {
    use atoll_fleet::explanation::{PolicyExplanation, ScoreExplanation};
    use serde_json::json;

    use super::*;

    #[test]
    fn an_explanation_says_why_for_each_cluster() {
        let placement = json!({ "spec": {
            "clusters": [{ "name": "east", "replicas": 2 }], "by": "placementpolicy/spread",
            "decisions": [{ "time": "1970-01-01T00:01:00Z", "by": "default", "reason": "placed: +east=2" }],
        } });
        let score = ScoreExplanation { name: "Present".into(), value: 2, reason: "has a share now".into() };
        let east = ClusterExplanation {
            name: "east".into(),
            chosen: true,
            replicas: Some(3),
            current: Some(2),
            ready: Some(1),
            since: "1970-01-01T00:01:00Z".into(),
            fits: Some(9),
            scores: vec![score],
            ..ClusterExplanation::default()
        };
        let west = ClusterExplanation {
            name: "west".into(),
            reason: "is cordoned".into(),
            ..ClusterExplanation::default()
        };
        let explanation = Explanation {
            by: "placementpolicy/spread".into(),
            replicas: Some(4),
            unplaced: 1,
            policies: vec![PolicyExplanation {
                policy: "clusterplacementpolicy/all".into(),
                applies: false,
                reason: "placementpolicy/spread is of the namespace".into(),
            }],
            clusters: vec![east, west],
            recomputed: true,
            ..Explanation::default()
        };
        let text = render("Deployment default/web", &placement, &explanation, 180, Paint::PLAIN);
        let expected = "\
Deployment default/web is placed on east (2) by placementpolicy/spread; 1 of 4 replicas have no place.
clusterplacementpolicy/all does not apply: placementpolicy/spread is of the namespace.

CLUSTER   CHOSEN   WANTED      READY   SINCE   FITS   WHY NOT
east      yes      3 (has 2)   1       2m      9      
west      no       -           -       -       -      is cordoned

CLUSTER   SCORE     VALUE   MEANING
east      Present   2       has a share now
The scores were computed for this answer. More is better, and the first counts most.

DECIDED   BY        DECISION
2m        default   placed: +east=2
";
        assert_eq!(text, expected);
    }
}
