//! A tenant cannot make the server connect to addresses of its own host.
