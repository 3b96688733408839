//! Printers by kind.

// upstream: pkg/printers/internalversion/printers.go

mod access;
mod autoscaling;
mod cluster;
mod core;
mod network;
mod pod;
mod storage;
mod workloads;

use crate::{Cell, Column, Printer};

/// The columns that nearly all kinds have.
const NAME: Column = Column::new("Name", Cell::Text("metadata.name"), NAME_DESCRIPTION).naming();
/// Upstream's description of the column, which is that of the field.
pub(crate) const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, \
    although some resources may allow a client to request the generation of an appropriate name automatically. Name is \
    primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE: Column = Column::new("Age", Cell::Since("metadata.creationTimestamp"), "Time since its creation.");

impl Printer {
    const fn new(columns: &'static [Column]) -> Printer {
        Printer {
            columns,
            surplus: None,
            conditions: |_| None,
            order: None,
            always_headed: false,
            null_when_empty: false,
        }
    }
}

/// The printer of kinds without columns of their own.
static PLAIN: Printer = Printer {
    null_when_empty: true,
    ..Printer::new(&[
        NAME,
        Column::new(
            "Created At",
            Cell::TextOr("metadata.creationTimestamp", "0001-01-01T00:00:00Z"),
            "Time of its creation.",
        )
        .date(),
    ])
};

static NAME_AND_AGE: Printer = Printer::new(&[NAME, AGE]);

/// Returns the printer of a kind.
pub fn printer(group: &str, kind: &str) -> &'static Printer {
    match group {
        "" => core::printer(kind),
        "events.k8s.io" if kind == "Event" => &core::EVENT,
        "apps" | "batch" | "policy" => workloads::printer(kind),
        "autoscaling" => autoscaling::printer(kind),
        "networking.k8s.io" | "discovery.k8s.io" => network::printer(kind),
        "storage.k8s.io" => storage::printer(kind),
        "rbac.authorization.k8s.io" | "certificates.k8s.io" | "admissionregistration.k8s.io" => {
            access::printer(kind)
        }
        _ => cluster::printer(group, kind),
    }
}

#[cfg(test)]
mod tests;
