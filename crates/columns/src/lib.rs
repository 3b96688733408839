//! Objects as tables: the columns that `kubectl get` shows for each kind.
//!
//! ```text
//!   printer(group, kind) ─► Printer ─ columns ─┬─ name, type, priority: said once for all rows
//!                                              └─ Cell: how the cell of a row is found
//!                                                   ├─ a field, a number, an age: data
//!                                                   └─ Special: a function of the object, in kinds/
//! ```
//!
//! Objects are JSON that has been through the types: what is absent was never set. The time of now comes from outside.

mod cell;
mod format;
mod kinds;
mod look;

use std::cmp::Ordering;

use atoll_meta::time::Timestamp;
use serde_json::Value;

pub use cell::Cell;
pub use kinds::printer;

/// One column: what is said of it, and where its cells come from.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`. Cells need not be of it: upstream's are not, either.
    pub kind: &'static str,
    /// `name` for the column that tells one object from another.
    pub format: &'static str,
    pub description: &'static str,
    /// Columns other than those of priority 0 are for wide output.
    pub priority: u8,
    pub cell: Cell,
}

/// How objects of a kind are shown.
#[derive(Debug)]
pub struct Printer {
    pub columns: &'static [Column],
    /// A cell without a column of its own, which upstream has by mistake.
    pub surplus: Option<Cell>,
    /// What a row says about its object for machines.
    pub conditions: fn(&Value) -> Option<Value>,
    /// The order of rows, if it is not that of names.
    pub order: Option<fn(&Value, &Value) -> Ordering>,
    /// Whether columns are told with each event of a watch, not only with the first.
    pub always_headed: bool,
    /// Whether a table without rows has none, rather than an empty list of them.
    pub null_when_empty: bool,
}

impl Printer {
    /// The cells of an object's row.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let cells = self.columns.iter().map(|column| &column.cell).chain(&self.surplus);
        cells.map(|cell| cell.of(object, now)).collect()
    }
}
