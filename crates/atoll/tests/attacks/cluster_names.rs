//! A tenant's Clusters neither block nor receive anything of other workspaces.
