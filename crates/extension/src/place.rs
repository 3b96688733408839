//! Where a walk over an object is, as a chain on the stack: it becomes a path only for an error.

use atoll_meta::FieldPath;

pub(crate) enum Place<'p> {
    Root(&'p FieldPath),
    Field(&'p Place<'p>, &'p str),
    Key(&'p Place<'p>, &'p str),
    Index(&'p Place<'p>, usize),
}

impl Place<'_> {
    pub fn path(&self) -> FieldPath {
        match self {
            Place::Root(path) => (*path).clone(),
            Place::Field(before, name) => before.path().child((*name).to_owned()),
            Place::Key(before, key) => before.path().key(key),
            Place::Index(before, index) => before.path().index(*index),
        }
    }
}
