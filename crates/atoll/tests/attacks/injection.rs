//! Text from a cluster cannot inject anything into files, terminals or messages.
