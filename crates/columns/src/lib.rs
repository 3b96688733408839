//! Objects as tables: the columns that `kubectl get` shows for each kind.
