//! Certificates that a tenant obtains open nothing but the tenant's workspace.
