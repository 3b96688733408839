//! How the server of a control plane connects to kubelets.

use std::sync::Arc;

use atoll_client::dialing::TenantAddresses;
use atoll_server::connect::kubelets::Kubelets;
use atoll_sim::KubeletListener;
use time::OffsetDateTime;

use super::key_material::KeyMaterial;
use super::settings::PlaneSettings;
use crate::sim::kubelets;

pub struct KubeletClient {
    pub kubelets: Arc<Kubelets>,
    /// The listener for the kubelets of simulated nodes.
    pub listener: Option<KubeletListener>,
    /// Whether its certificate is signed by the server's authority, and is therefore renewed.
    pub is_renewed: bool,
}

impl KubeletClient {
    pub async fn new(
        settings: &PlaneSettings,
        keys: &KeyMaterial,
        tenants: &TenantAddresses,
        now: OffsetDateTime,
    ) -> Result<KubeletClient, String> {
        if settings.simulation.is_some() {
            let (kubelets, listener) = kubelets::connect(&keys.authority, &keys.kubelets, now).await?;
            let kubelets = Arc::new(kubelets);
            return Ok(KubeletClient { kubelets, listener: Some(listener), is_renewed: false });
        }
        let lifetime = settings.certificate_lifetime;
        let mut kubelets = settings.kubelets.kubelets(&keys.authority, &keys.kubelets, now, lifetime)?;
        kubelets.tenants = tenants.clone();
        let is_renewed = settings.kubelets.uses_own_authority();
        Ok(KubeletClient { kubelets: Arc::new(kubelets), listener: None, is_renewed })
    }
}
