//! Helm 3 and Helm 4 as `upstream/build` builds them: a chart of realistic size is installed, upgraded,
//! rolled back and uninstalled, on Atoll and on kube-apiserver, and after each step both have the same
//! objects. Without Go the tests print so and pass.
//!
//! ```text
//!  chart/         the chart; upgraded.yaml has the values of the second revision
//!  helm/site      a server, and Helm with a kubeconfig for it
//!  helm/state     the objects of a namespace in comparable form, and the releases that Helm stores there
//!  helm/hooks     completes Jobs and Pods in place of the controllers and kubelets that the servers lack
//!  helm/releases  a release from its installation to its removal
//!  helm/owners    releases whose fields another manager or another version of Helm has set
//! ```

mod hooks;
mod owners;
mod releases;
mod site;
mod state;
