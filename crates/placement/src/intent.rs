//! The annotation `atoll.dev/clusters`: the clusters that a user asks for.
