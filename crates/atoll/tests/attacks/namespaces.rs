//! A tenant cannot use what a member cluster's owner has in it.
