//! Certificate requests of this program.

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use crate::authority::{AuthorityError, unusable};

/// Creates a key, as PEM.
pub fn key() -> Result<String, AuthorityError> {
    let key = KeyPair::generate().map_err(|error| unusable("a key", &error))?;
    Ok(key.serialize_pem())
}

/// Creates a request for a certificate of a user, signed with the user's key (PEM).
pub fn create(user: &str, key_pem: &str) -> Result<String, AuthorityError> {
    let key = KeyPair::from_pem(key_pem).map_err(|error| unusable("the key", &error))?;
    let mut parameters = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, user);
    parameters.distinguished_name = name;
    let request = parameters.serialize_request(&key);
    let request = request.and_then(|request| request.pem());
    request.map_err(|error| unusable("a certificate request", &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::CertificateRequest;

    #[test]
    fn requests_name_their_user_and_key() {
        let (one, other) = (key().unwrap(), key().unwrap());
        let read =
            |key: &str| CertificateRequest::from_pem(create("ann:b", key).unwrap().as_bytes()).unwrap();
        let request = read(&one);
        assert_eq!(request.common_name, "ann:b");
        assert!(request.is_signed() && request.organizations.is_empty() && request.dns_names.is_empty());
        assert_eq!(request.key_id(), read(&one).key_id());
        assert_ne!(request.key_id(), read(&other).key_id());
        assert!(create("ann", "no key").is_err());
    }
}
