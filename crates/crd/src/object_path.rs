//! The current path during a traversal, as a chain on the stack: it becomes a [`FieldPath`] only for an
//! error.

use atoll_meta::FieldPath;

pub(crate) enum ObjectPath<'p> {
    Root(&'p FieldPath),
    Field(&'p ObjectPath<'p>, &'p str),
    Key(&'p ObjectPath<'p>, &'p str),
    Index(&'p ObjectPath<'p>, usize),
}

impl ObjectPath<'_> {
    pub fn path(&self) -> FieldPath {
        match self {
            ObjectPath::Root(path) => (*path).clone(),
            ObjectPath::Field(before, name) => before.path().child((*name).to_owned()),
            ObjectPath::Key(before, key) => before.path().key(key),
            ObjectPath::Index(before, index) => before.path().index(*index),
        }
    }
}
