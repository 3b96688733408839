//! The certificate authorities and keys in the data directory.

use std::sync::Arc;

use atoll_authn::authority::{Authority, AuthorityError, Purpose};
use atoll_authn::service_account::{KeyRing, Tokens};
use time::OffsetDateTime;

use super::settings::PlaneSettings;

pub struct KeyMaterial {
    /// Signs the certificates of the server and of its clients.
    pub authority: Arc<Authority>,
    pub kubelets: Arc<Authority>,
    pub workspaces: Arc<Authority>,
    /// Signs and verifies tokens of ServiceAccounts.
    pub tokens: Arc<Tokens>,
}

impl KeyMaterial {
    /// Reads the authorities and keys, or creates them. Runs on a blocking thread, because key generation is
    /// slow.
    pub async fn open(settings: &PlaneSettings, now: OffsetDateTime) -> Result<KeyMaterial, String> {
        let (directory, issuer) = (settings.directory.clone(), settings.issuer.clone());
        let key_material = super::blocking(move || -> Result<KeyMaterial, AuthorityError> {
            let authority = |purpose: Purpose| Authority::open_for(purpose, &directory, now).map(Arc::new);
            Ok(KeyMaterial {
                authority: authority(Purpose::Server)?,
                kubelets: authority(Purpose::Kubelets)?,
                workspaces: authority(Purpose::Workspaces)?,
                tokens: Arc::new(Tokens::new(&issuer, KeyRing::open(&directory)?)),
            })
        });
        key_material.await?.map_err(|error| error.to_string())
    }
}
