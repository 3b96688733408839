//! Jobs: the generated selector uses the uid of the Job.

// upstream: pkg/registry/batch/job/strategy.go

use atoll_meta::object;
use serde_json::{Value, json};

use super::{Context, Strategy, counted, disabled, spec_differs};

const TEMPLATE: &str = "spec.template";
const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
/// The current and the legacy names.
const UID_LABELS: [&str; 2] = [UID_LABEL, "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

pub static STRATEGY: Strategy = Strategy {
    generation: true,
    raises_generation: spec_differs,
    fields: &[counted("status.successful", "status.succeeded", "0")],
    prepare_create,
    prepare_update: |new, _, _| disabled::drop_from_template(new, TEMPLATE),
    ..Strategy::GENERIC
};

fn prepare_create(job: &mut Value, context: &Context<'_>) {
    if job["spec"]["manualSelector"] != true {
        generate_selector(job);
        // Copy the labels instead of sharing them with the template.
        if !context.labelled {
            let labels = job["spec"]["template"]["metadata"]["labels"].clone();
            object::metadata_mut(job).insert("labels".into(), labels);
        }
    }
    disabled::drop_from_template(job, TEMPLATE);
}

/// Generates the selector and the labels of the template. Existing labels are kept; validation checks that
/// they match.
fn generate_selector(job: &mut Value) {
    let (name, uid) = (object::name(job).to_owned(), object::uid(job).to_owned());
    let labels = entry(entry(&mut job["spec"]["template"], "metadata"), "labels");
    for (label, value) in
        NAME_LABELS.map(|label| (label, &name)).into_iter().chain(UID_LABELS.map(|label| (label, &uid)))
    {
        if labels.get(label).is_none() {
            labels[label] = value.as_str().into();
        }
    }
    let wanted = entry(entry(&mut job["spec"], "selector"), "matchLabels");
    if wanted.get(UID_LABEL).is_none() {
        wanted[UID_LABEL] = uid.into();
    }
}

fn entry<'o>(holder: &'o mut Value, name: &str) -> &'o mut Value {
    if !holder.get(name).is_some_and(Value::is_object) {
        holder[name] = json!({});
    }
    &mut holder[name]
}
