use serde_json::json;

use super::{difference, render, render_list};

#[test]
fn structures_have_all_their_fields_and_upstreams_names() {
    let cases = [
        ("SeccompProfile", json!({ "type": "Localhost" }), r#"{"Type":"Localhost","LocalhostProfile":null}"#),
        ("*SeccompProfile", json!(null), "null"),
        (
            "DeploymentStrategy",
            json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%" } }),
            r#"{"Type":"RollingUpdate","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":"25%"}}"#,
        ),
        // Types of the API itself omit empty fields.
        (
            "LabelSelector",
            json!({ "matchLabels": { "a": "<b>" } }),
            r#"{"matchLabels":{"a":"\u003cb\u003e"}}"#,
        ),
        ("Nothing", json!({ "b": 1, "a": 2 }), r#"{"a":2,"b":1}"#),
    ];
    for (structure, value, expected) in cases {
        assert_eq!(render(structure, &value).to_string(), expected);
    }
    assert_eq!(render_list("PodIP", &json!([{ "ip": "1.2.3.4" }])).to_string(), r#"[{"IP":"1.2.3.4"}]"#);
    assert_eq!(render_list("PodIP", &json!(null)).to_string(), "null");
}

#[test]
fn fields_are_read_from_their_place_in_the_api() {
    let spec = render("PodSpec", &json!({ "hostNetwork": true, "containers": [] })).to_string();
    assert!(spec.contains(r#""Containers":[],"#), "{spec}");
    assert!(spec.contains(r#""SecurityContext":{"HostNetwork":true,"HostPID":false,"#), "{spec}");
    let template = render("PodTemplateSpec", &json!({ "metadata": { "labels": { "a": "b" } } })).to_string();
    assert!(template.starts_with(r#"{"labels":{"a":"b"},"Spec":{"Volumes":null,"#), "{template}");
}

#[test]
fn differences_are_those_of_indented_text() {
    let (old, new) = (json!({ "type": "Localhost" }), json!({ "type": "Unconfined" }));
    let expected = "@@ -1,4 +1,4 @@\n {\n- \"Type\": \"Localhost\",\n+ \"Type\": \"Unconfined\",\n  \"LocalhostProfile\": null\n }\n";
    assert_eq!(difference("SeccompProfile", &old, &new), expected);
    assert_eq!(difference("SeccompProfile", &old, &old), "");
}
