//! Helm 3 and Helm 4 as `upstream/build` makes them: a chart of realistic size is installed, upgraded, rolled back and
//! uninstalled, at Atoll and at kube-apiserver, and after each step the same is there. Without Go this says so and passes.
//!
//! ```text
//!   chart/       what is installed; upgraded.yaml is what the second revision changes
//!   helm/site    a server and a Helm that is pointed at it
//!   helm/state   what a namespace holds, made comparable, and the releases that Helm keeps there
//!   helm/hooks   completes Jobs and Pods in place of the controllers and kubelets that this cluster lacks
//!   helm/life    a release from its installation to its end
//!   helm/owners  releases whose fields others have set, or another Helm
//! ```

mod hooks;
mod life;
mod owners;
mod site;
mod state;
