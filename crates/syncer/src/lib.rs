mod digest;
mod drift;
mod mark;
mod reconcile;
mod settings;
